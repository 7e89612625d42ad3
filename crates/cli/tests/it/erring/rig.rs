//! A Singletree server whose model returns errors.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::Value;

use super::model::Failing;
use crate::home::{BINARY, Home};
use crate::serving::Serving;

/// The key of the model's server, which nobody may be shown.
pub(crate) const KEY: &str = "sk-erring-4711";

/// The limits of most tests: shorter than the stall for ever.
pub(crate) const TIMES: &str = "first = \"5s\"\nidle = \"5s\"\n";

/// Returns a configuration with the address of the model and its limits of time.
pub(crate) fn agents(url: &str, times: &str) -> String {
    format!(
        "[models.erring]\nwire = \"openai\"\nname = \"x\"\nbase_url = \"{url}\"\nkey = {{ env = \"ERRING_KEY\" }}\n\
         [models.erring.retry]\nattempts = 3\npause = \"10ms\"\nlongest_pause = \"50ms\"\n\
         [models.erring.time]\n{times}\
         [agents.keeper]\ninstructions = \"Keep what you are told.\"\ntools = [\"outbox\", \"clock\"]\n\
         [agents.other]\ninstructions = \"Another one.\"\ntools = [\"calculator\"]\n\
         [approval]\nask = []\ntrust = [\"send_message\"]\n\
         [limits]\nbusy_sessions = 1000\n"
    )
}

/// A server, its home, and its model.
pub(crate) struct ErringRig {
    pub(crate) home: Home,
    pub(crate) model: Arc<Failing>,
    pub(crate) server: Serving,
}

impl ErringRig {
    pub(crate) fn start(times: &str) -> Self {
        let model = Arc::new(Failing::default());
        let url = model.clone().serve();
        let home = Home::new();
        fs::write(home.path().join("singletree.toml"), agents(&url, times)).unwrap();
        let mut command = home.command(BINARY);
        command.current_dir(home.path()).args(["serve", "--listen", "127.0.0.1:0"]).env("ERRING_KEY", KEY);
        let log = fs::File::create(home.path().join("log.jsonl")).unwrap();
        let server = Serving::of(command.stdout(Stdio::piped()).stderr(log).spawn().unwrap());
        Self { home, model, server }
    }

    /// Stops the server, checks that its log does not show the key, and returns the messages that the tool has sent.
    pub(crate) fn stop(self) -> Vec<String> {
        self.server.stop();
        let log = fs::read_to_string(self.home.path().join("log.jsonl")).unwrap();
        assert!(!log.contains(KEY), "the log shows the key");
        let body = |message: &Value| message["body"].as_str().unwrap().to_owned();
        self.home.outbox().iter().map(body).collect()
    }
}
