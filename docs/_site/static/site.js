// A button on each block of code that copies it, without the prompts of a shell. Output has none.
document.addEventListener("DOMContentLoaded", () => {
    if (!navigator.clipboard) return;
    for (const block of document.querySelectorAll("article div.highlight")) {
        if (block.closest(".highlight-text, .highlight-none")) continue;
        const button = document.createElement("button");
        button.className = "copy";
        button.type = "button";
        button.textContent = "Copy";
        button.addEventListener("click", async () => {
            const code = block.querySelector("pre").innerText;
            await navigator.clipboard.writeText(code.replace(/^(>>> |\.\.\. |\$ )/gm, ""));
            button.textContent = "Copied";
            setTimeout(() => (button.textContent = "Copy"), 1500);
        });
        block.append(button);
    }
});
