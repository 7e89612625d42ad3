//! The list of erased data, a file outside of the database, for databases that are restored from a backup (D25).

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use singletree_durable::{Result, Timestamp};
use singletree_env::{Env, RandomSource};
use singletree_erasures::{ErasedName, ErasureListWriter};
use tokio::task::spawn_blocking;

use crate::error::unavailable_error;

/// The file, and the randomness of its key.
#[derive(Debug)]
pub(crate) struct ErasureRecord {
    /// Held while the file is written, on a thread for that.
    writer: Arc<Mutex<ErasureListWriter>>,
    rng: Arc<dyn RandomSource>,
}

impl ErasureRecord {
    /// Opens the file; it is made with the first entry.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(crate) async fn open(path: PathBuf, env: &Env) -> Result<Self> {
        let writer = run_blocking(move || ErasureListWriter::open_to_append(path)).await?;
        Ok(Self { writer: Arc::new(Mutex::new(writer)), rng: Arc::clone(&env.rng) })
    }

    /// Adds names, with the times at which they were erased, and syncs the file.
    ///
    /// # Errors
    /// `store_full`, `store_unavailable`: then nothing must be erased.
    pub(crate) async fn add_names(&self, names: Vec<(ErasedName, Timestamp)>) -> Result<()> {
        let (writer, rng) = (Arc::clone(&self.writer), Arc::clone(&self.rng));
        run_blocking(move || {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.append_names(&names, || Ok(draw_key(rng.as_ref())))
        })
        .await
    }
}

async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(unavailable_error("keep the list of what was erased", error)))
}

fn draw_key(rng: &dyn RandomSource) -> String {
    let mut key = [0; 32];
    rng.fill_bytes(&mut key);
    key.iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("text grows");
        digits
    })
}
