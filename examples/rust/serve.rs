// Searches under a model that Python saved, in Rust, through the C library:
//
//     DIR=$(python -c 'import metricfast; print(metricfast.get_library_dir())')
//     rustc --edition 2021 -L native=$DIR -l metricfast -C link-arg=-Wl,-rpath,$DIR serve.rs
//     ./serve iris.safetensors

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr::{null, null_mut};

#[repr(C)]
struct RawModel {
    _private: [u8; 0],
}
#[repr(C)]
struct RawDatabase {
    _private: [u8; 0],
}

// The first value of metricfast_metric.
const EUCLIDEAN: c_int = 0;

// Declarations from metricfast.h.
extern "C" {
    fn metricfast_last_error() -> *const c_char;
    fn metricfast_model_load(path: *const c_char, model: *mut *mut RawModel) -> c_int;
    fn metricfast_model_free(model: *mut RawModel);
    fn metricfast_model_n_features(model: *const RawModel) -> i64;
    fn metricfast_database_create_f64(
        model: *const RawModel,
        points: *const f64,
        n_points: i64,
        metric: c_int,
        n_threads: c_int,
        database: *mut *mut RawDatabase,
    ) -> c_int;
    fn metricfast_database_free(database: *mut RawDatabase);
    fn metricfast_database_search_f64(
        database: *const RawDatabase,
        queries: *const f64,
        n_queries: i64,
        n_neighbors: i64,
        filter: *const c_void,
        distances: *mut f64,
        rows: *mut i64,
        n_threads: c_int,
    ) -> c_int;
}

fn check(status: c_int) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    let text = unsafe { CStr::from_ptr(metricfast_last_error()) };
    Err(text.to_string_lossy().into_owned())
}

/// Points prepared for searches under a model.
struct Database {
    raw: *mut RawDatabase,
    n_features: usize,
}

// Any number of threads may search a database at once, according to metricfast.h.
unsafe impl Send for Database {}
unsafe impl Sync for Database {}

impl Database {
    /// Prepares row-major points under the model in a file.
    fn new(path: &str, points: &[f64]) -> Result<Self, String> {
        let path = CString::new(path).map_err(|error| error.to_string())?;
        let (mut model, mut raw) = (null_mut(), null_mut());
        check(unsafe { metricfast_model_load(path.as_ptr(), &mut model) })?;
        let n_features = unsafe { metricfast_model_n_features(model) } as usize;
        let n_points = (points.len() / n_features) as i64;
        let made = check(unsafe {
            metricfast_database_create_f64(model, points.as_ptr(), n_points, EUCLIDEAN, 0, &mut raw)
        });
        unsafe { metricfast_model_free(model) };
        made.map(|()| Database { raw, n_features })
    }

    /// Returns the rows and distances of the k nearest points of each query.
    fn search(&self, queries: &[f64], k: usize) -> Result<(Vec<i64>, Vec<f64>), String> {
        let n = queries.len() / self.n_features;
        let (mut rows, mut distances) = (vec![0; n * k], vec![0.0; n * k]);
        check(unsafe {
            metricfast_database_search_f64(
                self.raw,
                queries.as_ptr(),
                n as i64,
                k as i64,
                null(),
                distances.as_mut_ptr(),
                rows.as_mut_ptr(),
                0,
            )
        })?;
        Ok((rows, distances))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        unsafe { metricfast_database_free(self.raw) }
    }
}

fn main() -> Result<(), String> {
    let path = std::env::args().nth(1).unwrap_or("iris.safetensors".to_string());
    let flowers = [5.1, 3.5, 1.4, 0.2, 6.2, 2.9, 4.3, 1.3, 6.3, 3.3, 6.0, 2.5];
    let database = Database::new(&path, &flowers)?;
    let (rows, distances) = database.search(&[6.0, 3.0, 5.0, 1.8], 2)?;
    for (row, distance) in rows.iter().zip(&distances) {
        println!("{row}:{distance:.4}");
    }
    Ok(())
}
