//! Prompts in a folder.

mod body;
mod header;
mod path;
mod read;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use singletree_llm::BoxFuture;

use crate::backend::PromptBackend;
use crate::error::{Error, Result};
use crate::prompt::Prompt;
use read::PromptFolder;
use singletree_env::{Clock, SystemClock};

/// How much is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Bytes of one file. 1 MiB.
    pub file_bytes: u64,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self { file_bytes: 1024 * 1024 }
    }
}

/// A folder of prompts, one file for each version.
///
/// # Files
///
/// `support/greeting.md` is the prompt `support/greeting`. With several versions, `support/greeting@1.md` and
/// `support/greeting@2.md` are the versions `1` and `2` of it. Every fetch reads: a change is seen at once. Put a
/// [`CachedBackend`](crate::CachedBackend) in front where that is too much.
///
/// # Header
///
/// A file may begin with a header, TOML between two lines `+++`; every key may be left out:
///
/// ```text
/// +++
/// version = "3"                # else the one in the file's name, else the beginning of the template's hash
/// labels = ["production"]      # this is the default; `[]` is a draft that no fetch finds
/// description = "Says hello."
///
/// [sampling]
/// temperature = 0.2
/// max_tokens = 256
///
/// [sampling.extras]
/// top_k = 40
///
/// [token_budget]
/// input_max_tokens = 2000
///
/// [metadata]
/// owner = "support"
/// +++
/// Hello, {{ user }}!
/// ```
///
/// `[observability_entities]` is the last of them. An unknown key is a mistake, except in `token_budget`, which must
/// never break a call.
///
/// # Template
///
/// The template follows the header, without the blank lines around it. When its first line is a marker, it is a chat
/// prompt:
///
/// ```text
/// [[system]]
/// You describe photos for {{ shop }}.
///
/// [[placeholder history]]
///
/// [[user]]
/// Describe {{ product }}:
/// [[image url = "{{ photo_url }}", detail = "high"]]
/// ```
///
/// A marker stands alone on its line: `[[system]]`, `[[user]]` and `[[assistant]]` begin a segment, `[[placeholder
/// NAME]]` is where the caller's messages go, `[[image ...]]` is an image in the segment of a user, with `url` (and
/// perhaps `media_type`), or with `base64_data` and `media_type`, and perhaps `detail`. A line of text that begins
/// with `[[` is written `\[[`. Line ends are `\n`, whatever the file has.
#[derive(Debug)]
pub struct FileBackend {
    folder: PromptFolder,
    clock: Arc<dyn Clock>,
}

impl FileBackend {
    /// Reads from this folder, on the system's clock. The folder is looked at by the first fetch.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            folder: PromptFolder { root: root.into(), limits: FileLimits::default() },
            clock: Arc::new(SystemClock),
        }
    }

    /// Sets how much is read.
    #[must_use]
    pub fn with_limits(mut self, limits: FileLimits) -> Self {
        self.folder.limits = limits;
        self
    }

    /// Takes the time from another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Reads every file of the folder, and returns every mistake, by path and line.
    ///
    /// # Errors
    ///
    /// `prompt_store_unavailable` when the folder or a file cannot be read.
    ///
    /// # Cancellation
    ///
    /// Dropping the future leaves the read to end unheard.
    pub async fn check_files(&self) -> Result<Vec<Error>> {
        let folder = self.folder.clone();
        run_blocking_read(move || folder.check_files()).await
    }
}

impl PromptBackend for FileBackend {
    /// Fetches a prompt. Errors besides those of the contract: `prompt_file_invalid`, when no good file has the label
    /// and a bad one might, or when two have it.
    fn fetch_prompt<'a>(
        &'a self,
        name: &'a str,
        label: &'a str,
        _cache_ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Arc<Prompt>>> {
        let folder = self.folder.clone();
        let (name, label) = (name.to_owned(), label.to_owned());
        Box::pin(async move {
            let prompt = run_blocking_read(move || folder.find_prompt(&name, &label)).await?;
            Ok(Arc::new(prompt.with_fetched_at(self.clock.now().to_system_time())))
        })
    }
}

/// Reads where it holds up no other task. Without a runtime there is none to hold up.
async fn run_blocking_read<T: Send + 'static>(
    read: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return read() };
    let ended = runtime.spawn_blocking(read).await;
    ended.unwrap_or_else(|ended| {
        Err(Error::store_unavailable("the read of a prompt's file broke off", Some(ended.into())))
    })
}
