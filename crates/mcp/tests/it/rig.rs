//! A scripted server in a folder of its own, and a toolbox over it.

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use singletree_http::Secret;
use singletree_llm::ToolCall;
use singletree_mcp::{McpCommand, McpLimits, McpServer, McpServerBuilder};
use singletree_tools::{IdempotencyKey, LiveToolbox, Output, ToolLimits, Toolbox, Toolset};
use tempfile::TempDir;

/// A scripted server: files in its folder control its behaviour and record its events.
pub(crate) struct Rig {
    pub(crate) folder: TempDir,
    pub(crate) server: McpServer,
    pub(crate) tools: LiveToolbox,
}

impl Rig {
    /// Makes one whose server does as it should, under limits of seconds.
    pub(crate) fn new() -> Self {
        Self::with(|it| it)
    }

    pub(crate) fn with(describe: impl FnOnce(McpServerBuilder) -> McpServerBuilder) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let command =
            McpCommand::new(env!("CARGO_BIN_EXE_mcp-script"), [folder.path().to_str().expect("text")])
                .env("SCRIPT_PLAIN", "1")
                .secret_env("SCRIPT_KEY", Secret::new("sk-canary-4711"));
        let server = describe(McpServer::program("script", command).limits(limits())).build();
        let server = server.expect("well described");
        let tools = live(&server);
        Self { folder, server, tools }
    }

    /// Makes the server behave in some way.
    pub(crate) fn behave(&self, how: &str) {
        fs::write(self.folder.path().join(how), "").expect("writes");
    }

    pub(crate) fn behave_again(&self, how: &str) {
        fs::remove_file(self.folder.path().join(how)).expect("was there");
    }

    /// Returns the lines that the server recorded.
    pub(crate) fn noted(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn starts(&self) -> usize {
        self.noted("starts").len()
    }

    /// Calls a tool by the server's own name of it, where that is a safe one.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Output {
        call(&self.tools.current_toolbox().await, &format!("script__{tool}"), arguments).await
    }

    /// Lets the server hold a connection here as long as it lives.
    pub(crate) fn lifeline(&self) -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("bound").to_string();
        fs::write(self.folder.path().join("lifeline"), address).expect("writes");
        listener
    }

    /// Kills the program that was started last.
    #[cfg(unix)]
    pub(crate) fn kill(&self) {
        kill(self.noted("starts").last().and_then(|it| it.parse().ok()));
    }
}

/// Kills a program as the system would.
#[cfg(unix)]
pub(crate) fn kill(process: Option<u32>) {
    let number = process.and_then(|it| i32::try_from(it).ok()).expect("was started");
    let program = rustix::process::Pid::from_raw(number).expect("a number");
    rustix::process::kill_process(program, rustix::process::Signal::KILL).expect("runs");
}

/// Limits under which nothing is ever cut short that does not hang.
pub(crate) fn limits() -> McpLimits {
    McpLimits { message_bytes: 100_000, output_bytes: 1_000, ..McpLimits::standard() }
}

pub(crate) fn live(server: &McpServer) -> LiveToolbox {
    let none = Toolbox::new([], ToolLimits { time: Duration::from_secs(1), output_bytes: 1_000 });
    let set: Arc<dyn Toolset> = Arc::new(server.clone());
    LiveToolbox::new(none.expect("no duplicate"), [set])
}

pub(crate) async fn call(toolbox: &Toolbox, name: &str, arguments: Value) -> Output {
    let arguments = arguments.as_object().expect("an object").clone();
    toolbox.call(&ToolCall::new("call", name, arguments), &key()).await
}

pub(crate) fn key() -> IdempotencyKey {
    IdempotencyKey::new("session", "correlation", 0, 0)
}

/// Makes the output of a call that failed.
pub(crate) fn failed(category: &'static str, text: &str) -> Output {
    Output { success: false, category: Some(category), ..Output::text(text) }
}
