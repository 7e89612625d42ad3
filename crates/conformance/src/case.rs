//! Cases: reading them.

use std::time::Duration;

use singletree::engine::SessionShape;

use crate::adapt::{self, SessionStoreSpec};
use crate::base::HarnessCaseSpec;
use crate::chat::ChatCaseSpec;
use crate::checkpoints::{self, CheckpointBackend, CheckpointCaseSpec};
use crate::dialect::FixtureDialect;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader, unknown};
use crate::graph::{FixtureGraphSpec, Subgraphs, take_subgraphs};
use crate::nodes::millis;
use crate::observers::ObserverSpec;
use crate::run::InvocationSpec;
use crate::schema::literals;
use crate::yaml::{YamlNode, YamlValue};

/// A case that was read.
#[derive(Debug)]
pub(crate) struct FixtureCaseSpec {
    /// Its graph.
    pub(crate) graph: FixtureGraphSpec,
    /// The subgraphs that it may use.
    pub(crate) subgraphs: Subgraphs,
    /// Its observers.
    pub(crate) observers: Vec<ObserverSpec>,
    /// Its session store.
    pub(crate) store: Option<SessionStoreSpec>,
    /// Whether paused records cannot be saved.
    pub(crate) paused_raises: bool,
    /// Which fields are the session's.
    pub(crate) shape: Option<SessionShape>,
    /// Whether the session is saved at the end.
    pub(crate) auto_save: Option<bool>,
    /// Where its checkpoints are kept.
    pub(crate) checkpointer: Option<CheckpointBackend>,
    /// The session's record that is there before.
    pub(crate) seeded: Option<LocatedNode>,
    /// The migrations of sessions.
    pub(crate) migrations: Option<LocatedNode>,
    /// The migrations of checkpoints.
    pub(crate) checkpoint_migrations: Option<LocatedNode>,
    /// How far the clock of timing middleware goes each time that it is read.
    pub(crate) tick: Option<Duration>,
    /// The structural error that is expected.
    pub(crate) compile_error: Option<LocatedNode>,
    /// The warnings that are expected.
    pub(crate) compile_warning: Option<LocatedNode>,
    /// The program to run with the graph.
    pub(crate) program: CaseProgram,
    /// The invariants of the case and of its file.
    pub(crate) invariants: Vec<LocatedNode>,
}

/// The program to run with a case's graph.
#[derive(Debug)]
pub(crate) enum CaseProgram {
    /// Compile it.
    Compile,
    /// Invoke it, and do all of that so many times.
    Invoke(Vec<InvocationSpec>, usize),
    /// Invoke it, and resume from the saved checkpoint.
    Checkpointed(Box<CheckpointCaseSpec>),
    /// Serve it with the abstract harness.
    Base(HarnessCaseSpec),
    /// Serve it with the chat harness.
    Chat(ChatCaseSpec),
}

/// A case of a file, not read yet.
#[derive(Debug, Clone)]
pub(crate) struct UnparsedCase {
    /// Its name; the file's when it is the only one.
    pub(crate) name: String,
    /// The dialect in which the case is written.
    pub(crate) dialect: FixtureDialect,
    pub(crate) own: YamlNode,
    pub(crate) shared: Option<YamlNode>,
}

/// The version of the conformance-adapter capability that the runner knows, as its text states it.
const VERSION: [u64; 3] = [0, 48, 0];

/// Splits a file into its cases.
///
/// # Errors
/// When the file is no map, or a case has no name.
pub(crate) fn split(
    document: YamlNode,
    fixture: &str,
    dialect: FixtureDialect,
) -> Outcome<Vec<UnparsedCase>> {
    let YamlValue::Map(entries) = &document.value else {
        return Err(CaseFailure::reader("", "the document is no map"));
    };
    let Some(cases) = document.get("cases").cloned() else {
        return Ok(vec![UnparsedCase { name: fixture.to_owned(), dialect, own: document, shared: None }]);
    };
    let known = |key: &str| dialect.shares(key) || ["cases", "description"].contains(&key);
    if let Some((key, node)) = entries.iter().find(|(key, _)| !known(key)) {
        return Err(unknown("the file", key, node.line));
    }
    let shared = entries.iter().filter(|(key, _)| dialect.shares(key)).cloned().collect();
    let shared = YamlNode { line: document.line, value: YamlValue::Map(shared) };
    let cases = LocatedNode::new(cases, "cases").items()?.into_iter().map(|case| {
        let name = case.node.get("name").map(YamlNode::to_json);
        let name = name.as_ref().and_then(serde_json::Value::as_str);
        let name = name.ok_or_else(|| CaseFailure::reader(&case.path, "the case has no name"))?.to_owned();
        Ok(UnparsedCase { name, dialect, own: case.node, shared: Some(shared.clone()) })
    });
    cases.collect()
}

impl FixtureCaseSpec {
    /// Checks whether the runner needs its own observer: for the work around nodes, and for nodes that have no body.
    #[must_use]
    pub(crate) fn listens(&self) -> bool {
        self.graph.is_composed() || self.subgraphs.values().any(FixtureGraphSpec::is_composed)
    }
}

impl UnparsedCase {
    /// Returns all parts of the case as one map, so that a caller can change a part: the case's own part under
    /// `case`, the part shared with the other cases of its file under `file`.
    #[must_use]
    pub(crate) fn whole(&self) -> YamlNode {
        let mut parts = vec![("case".to_owned(), self.own.clone())];
        parts.extend(self.shared.clone().map(|shared| ("file".to_owned(), shared)));
        YamlNode { line: self.own.line, value: YamlValue::Map(parts) }
    }

    /// Returns the same case of other parts, as [`whole`](Self::whole) gave them.
    #[must_use]
    pub(crate) fn with(&self, whole: &YamlNode) -> Self {
        let own = whole.get("case").unwrap_or(&self.own).clone();
        Self { name: self.name.clone(), dialect: self.dialect, own, shared: whole.get("file").cloned() }
    }

    /// Returns the case's own part, and the part that it shares with the other cases of its file.
    #[must_use]
    pub(crate) fn parts(self) -> (YamlNode, Option<YamlNode>) {
        (self.own, self.shared)
    }

    /// Reads the case, strictly.
    ///
    /// # Errors
    /// For the first thing that is unknown in it.
    pub(crate) fn read(self) -> Outcome<FixtureCaseSpec> {
        let mut block = LocatedNode::new(self.own, "").fields()?;
        let mut subgraphs = Subgraphs::new();
        let mut invariants = Vec::new();
        if let Some(shared) = self.shared {
            let mut shared = LocatedNode::new(shared, "").fields()?;
            take_subgraphs(&mut shared, &mut subgraphs)?;
            invariants.extend(shared.take("invariants"));
            check_version(&mut shared)?;
        }
        check_version(&mut block)?;
        invariants.extend(block.take("invariants"));
        block.text("description")?;
        let program = take_program(&mut block)?;
        block.text("name")?;
        let store = block.take("session_store").map(adapt::store).transpose()?;
        let paused = block.take("dev.singletree.paused_store").map(adapt::paused_store).transpose()?;
        let spec = FixtureCaseSpec {
            graph: take_graph(&mut block, &mut subgraphs)?,
            observers: match block.take("observers") {
                Some(list) => list.items()?.into_iter().map(ObserverSpec::read).collect::<Outcome<_>>()?,
                None => Vec::new(),
            },
            store,
            paused_raises: paused.unwrap_or(false),
            shape: block.take("session_state").map(shape).transpose()?,
            auto_save: block.take("auto_save").map(|value| value.truth()).transpose()?,
            checkpointer: block.take("checkpointer").map(checkpoints::backend).transpose()?,
            seeded: block.take("seeded_session"),
            migrations: block.take("session_migrations"),
            checkpoint_migrations: block.take("migrations"),
            tick: block.take("clock_stub").map(tick).transpose()?,
            compile_error: block.take("expected_compile_error"),
            compile_warning: block.take("expected_compile_warning"),
            subgraphs,
            program,
            invariants,
        };
        block.finish()?;
        Ok(spec)
    }
}

/// Refuses fixtures of a later version (conformance-adapter §4.4).
pub(crate) fn check_version(block: &mut YamlMapReader) -> Outcome<()> {
    let Some(spot) = block.take("conformance_version") else { return Ok(()) };
    let parts: Result<Vec<u64>, _> = spot.text()?.split('.').map(str::parse).collect();
    match parts {
        Ok(parts) if parts.len() == 3 && parts.as_slice() <= VERSION.as_slice() => Ok(()),
        Ok(parts) if parts.len() == 3 => Err(CaseFailure::reader(&spot.path, "fixture_version_unsupported")),
        Ok(_) | Err(_) => Err(spot.wrong("a version of three numbers")),
    }
}

fn take_graph(block: &mut YamlMapReader, subgraphs: &mut Subgraphs) -> Outcome<FixtureGraphSpec> {
    let Some(nested) = block.take("graph") else {
        take_subgraphs(block, subgraphs)?;
        return FixtureGraphSpec::take(block);
    };
    let mut nested = nested.fields()?;
    take_subgraphs(&mut nested, subgraphs)?;
    let graph = FixtureGraphSpec::take(&mut nested)?;
    nested.finish()?;
    Ok(graph)
}

fn shape(spot: LocatedNode) -> Outcome<SessionShape> {
    let mut block = spot.fields()?;
    let fields = block.need("fields")?.texts()?;
    block.finish()?;
    Ok(SessionShape::fields(fields.iter().map(String::as_str)))
}

fn tick(spot: LocatedNode) -> Outcome<Duration> {
    let mut block = spot.fields()?;
    let kind = block.need("type")?;
    if kind.text()? != "deterministic_monotonic" {
        return Err(CaseFailure::reader(&kind.path, format!("unknown clock '{}'", kind.text()?)));
    }
    let tick = millis(&block.need("advance_ms_per_call")?)?;
    block.finish()?;
    Ok(tick)
}

fn take_program(block: &mut YamlMapReader) -> Outcome<CaseProgram> {
    let has = |block: &YamlMapReader, key: &str| block.keys().any(|it| it == key);
    if has(block, "transmissions") {
        return HarnessCaseSpec::take(block).map(CaseProgram::Base);
    }
    if has(block, "chat_turns") {
        return ChatCaseSpec::take(block).map(CaseProgram::Chat);
    }
    if has(block, "checkpointer") && !has(block, "invocations") {
        return CheckpointCaseSpec::take(block).map(|it| CaseProgram::Checkpointed(Box::new(it)));
    }
    let times = block.take("run_count").map(|value| value.whole()).transpose()?.unwrap_or(1);
    let times = usize::try_from(times).ok().filter(|it| *it > 0);
    let times = times.ok_or_else(|| CaseFailure::reader("run_count", "is no number of runs"))?;
    if let Some(list) = block.take("invocations") {
        let shared = block.take("initial_state").map(literals).transpose()?;
        let one = |it: LocatedNode| {
            let mut it = it.fields()?;
            let spec = InvocationSpec::take(&mut it)?.beginning_with(shared.as_ref());
            it.finish()?;
            Ok(spec)
        };
        let invocations = list.items()?.into_iter().map(one).collect::<Outcome<_>>()?;
        return Ok(CaseProgram::Invoke(invocations, times));
    }
    let runs = has(block, "expected") || has(block, "expected_error");
    if !runs && (has(block, "expected_compile_error") || has(block, "expected_compile_warning")) {
        block.take("initial_state");
        return Ok(CaseProgram::Compile);
    }
    Ok(CaseProgram::Invoke(vec![InvocationSpec::take(block)?], times))
}
