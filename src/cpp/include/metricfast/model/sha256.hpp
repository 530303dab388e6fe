/// The digest that model files carry: SHA-256 (FIPS 180-4).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "metricfast/core/config.hpp"

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define METRICFAST_SHA_INSTRUCTIONS
#include <cpuid.h>
#include <immintrin.h>
#endif

METRICFAST_NAMESPACE_BEGIN

namespace detail {

using Sha256State = std::array<std::uint32_t, 8>;
constexpr std::size_t sha256_block = 64; ///< bytes

inline constexpr std::uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// Mixes whole blocks into the state, on any processor.
inline void sha256_portable(Sha256State &state, const unsigned char *bytes, std::size_t blocks) {
    const auto rotated = [](std::uint32_t x, int n) { return x >> n | x << (32 - n); };
    for (; blocks > 0; --blocks, bytes += sha256_block) {
        std::uint32_t w[64];
        for (int i = 0; i < 16; ++i)
            w[i] = std::uint32_t(bytes[4 * i]) << 24 | std::uint32_t(bytes[4 * i + 1]) << 16 |
                   std::uint32_t(bytes[4 * i + 2]) << 8 | std::uint32_t(bytes[4 * i + 3]);
        for (int i = 16; i < 64; ++i) {
            const std::uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) + w[i - 7] +
                   (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
        }
        Sha256State s = state;
        for (int i = 0; i < 64; ++i) {
            const std::uint32_t first =
                s[7] + (rotated(s[4], 6) ^ rotated(s[4], 11) ^ rotated(s[4], 25)) +
                ((s[4] & s[5]) ^ (~s[4] & s[6])) + sha256_constants[i] + w[i];
            const std::uint32_t second =
                (rotated(s[0], 2) ^ rotated(s[0], 13) ^ rotated(s[0], 22)) +
                ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
            s = {first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
        }
        for (std::size_t i = 0; i < 8; ++i)
            state[i] += s[i];
    }
}

#ifdef METRICFAST_SHA_INSTRUCTIONS

/// Returns whether the processor has SHA instructions, and SSE4.1.
inline bool has_sha_instructions() {
    static const bool has = [] {
        unsigned a = 0, b = 0, c = 0, d = 0;
        const bool sse = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 9 & c >> 19 & 1) != 0;
        return sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
    }();
    return has;
}

/// The same by SHA instructions, four rounds at a time.
__attribute__((target("sha,sse4.1"))) inline void
sha256_instructions(Sha256State &state, const unsigned char *bytes, std::size_t blocks) {
    const auto *const constants = reinterpret_cast<const __m128i *>(sha256_constants);
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const auto *const words = reinterpret_cast<const __m128i *>(state.data());
    // Instructions take the state in halves, from the lowest word on: f e b a, and h g d c.
    const __m128i dcba = _mm_loadu_si128(words), hgfe = _mm_loadu_si128(words + 1);
    const __m128i badc = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i feba = _mm_alignr_epi8(badc, efgh, 8), hgdc = _mm_blend_epi16(efgh, badc, 0xf0);
    for (; blocks > 0; --blocks, bytes += sha256_block) {
        const __m128i feba_before = feba, hgdc_before = hgdc;
        __m128i w[4];
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) {
            __m128i &next = w[i % 4];
            if (i < 4) {
                next = _mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes) + i);
                next = _mm_shuffle_epi8(next, big_endian);
            } else {
                const __m128i last = w[(i + 3) % 4];
                next = _mm_sha256msg1_epu32(next, w[(i + 1) % 4]);
                next = _mm_add_epi32(next, _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
                next = _mm_sha256msg2_epu32(next, last);
            }
            const __m128i sum = _mm_add_epi32(next, _mm_loadu_si128(constants + i));
            hgdc = _mm_sha256rnds2_epu32(hgdc, feba, sum);
            feba = _mm_sha256rnds2_epu32(feba, hgdc, _mm_shuffle_epi32(sum, 0x0e));
        }
        feba = _mm_add_epi32(feba, feba_before);
        hgdc = _mm_add_epi32(hgdc, hgdc_before);
    }
    const __m128i abef = _mm_shuffle_epi32(feba, 0x1b), ghcd = _mm_shuffle_epi32(hgdc, 0xb1);
    auto *const out = reinterpret_cast<__m128i *>(state.data());
    _mm_storeu_si128(out, _mm_blend_epi16(abef, ghcd, 0xf0));
    _mm_storeu_si128(out + 1, _mm_alignr_epi8(ghcd, abef, 8));
}

#endif

inline void sha256_blocks(Sha256State &state, const unsigned char *bytes, std::size_t blocks) {
#ifdef METRICFAST_SHA_INSTRUCTIONS
    if (has_sha_instructions())
        return sha256_instructions(state, bytes, blocks);
#endif
    sha256_portable(state, bytes, blocks);
}

} // namespace detail

/// The digest of bytes that are added piece by piece.
class Sha256 {
  public:
    void add(std::string_view bytes) {
        size_ += bytes.size();
        while (!bytes.empty()) {
            const std::size_t blocks = filled_ > 0 ? 0 : bytes.size() / block_.size();
            if (blocks > 0) {
                detail::sha256_blocks(state_, reinterpret_cast<const unsigned char *>(bytes.data()),
                                      blocks);
                bytes.remove_prefix(blocks * block_.size());
                continue;
            }
            const std::size_t count = std::min(bytes.size(), block_.size() - filled_);
            std::copy_n(bytes.data(), count, block_.data() + filled_);
            bytes.remove_prefix(count);
            filled_ += count;
            if (filled_ == block_.size()) {
                detail::sha256_blocks(state_, block_.data(), 1);
                filled_ = 0;
            }
        }
    }

    /// In hexadecimal; nothing may be added after.
    std::string hex() {
        const std::uint64_t bits = size_ * 8;
        std::string padding((2 * block_.size() - 9 - filled_) % block_.size() + 1, '\0');
        padding[0] = '\x80';
        for (int shift = 56; shift >= 0; shift -= 8)
            padding += static_cast<char>(bits >> shift & 255);
        add(padding);
        std::string text;
        for (const std::uint32_t word : state_)
            for (int shift = 28; shift >= 0; shift -= 4)
                text += "0123456789abcdef"[word >> shift & 15];
        return text;
    }

  private:
    detail::Sha256State state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<unsigned char, detail::sha256_block> block_{}; ///< the last bytes, not yet mixed in
    std::size_t filled_ = 0;
    std::uint64_t size_ = 0;
};

METRICFAST_NAMESPACE_END
