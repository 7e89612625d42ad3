//! Cases: reading them.

use std::time::Duration;

use singletree::engine::SessionShape;

use crate::adapt::{self, SessionStoreSpec};
use crate::base::HarnessCaseSpec;
use crate::chat::ChatCaseSpec;
use crate::checkpoints::{self, CheckpointBackend, CheckpointCaseSpec};
use crate::dialect::FixtureDialect;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader, unknown_key};
use crate::graph::{FixtureGraphSpec, Subgraphs, take_subgraphs};
use crate::inner_graphs::complete_inner_graphs;
use crate::nodes::parse_milliseconds;
use crate::observers::ObserverSpec;
use crate::run::InvocationSpec;
use crate::schema::parse_literals;
use crate::telemetry::{TelemetryCaseSpec, is_about_telemetry};
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
    /// The expectations about all invocations of the case together, by key.
    pub(crate) expected: Vec<(String, LocatedNode)>,
    /// Its telemetry.
    pub(crate) telemetry: TelemetryCaseSpec,
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

/// No fixture invokes its graph more often.
const MOST_INVOCATIONS: usize = 16;

/// Splits a file into its cases.
///
/// # Errors
/// When the file is no map, or a case has no name.
pub(crate) fn split_cases(
    document: YamlNode,
    fixture: &str,
    dialect: FixtureDialect,
) -> Outcome<Vec<UnparsedCase>> {
    let YamlValue::Map(entries) = &document.value else {
        return Err(CaseFailure::reader_error("", "the document is no map"));
    };
    let Some(cases) = document.get_entry("cases").cloned() else {
        return Ok(vec![UnparsedCase { name: fixture.to_owned(), dialect, own: document, shared: None }]);
    };
    let known = |key: &str| dialect.is_shared_key(key) || ["cases", "description"].contains(&key);
    if let Some((key, node)) = entries.iter().find(|(key, _)| !known(key)) {
        return Err(unknown_key("the file", key, node.line));
    }
    let shared = entries.iter().filter(|(key, _)| dialect.is_shared_key(key)).cloned().collect();
    let shared = YamlNode { line: document.line, value: YamlValue::Map(shared) };
    let cases = LocatedNode::new(cases, "cases").into_items()?.into_iter().map(|case| {
        let name = case.node.get_entry("name").map(YamlNode::to_json);
        let name = name.as_ref().and_then(serde_json::Value::as_str);
        let name =
            name.ok_or_else(|| CaseFailure::reader_error(&case.path, "the case has no name"))?.to_owned();
        Ok(UnparsedCase { name, dialect, own: case.node, shared: Some(shared.clone()) })
    });
    cases.collect()
}

impl FixtureCaseSpec {
    /// Checks whether the runner needs its own observer: for the work around nodes, and for nodes that have no body.
    #[must_use]
    pub(crate) fn needs_runner_observer(&self) -> bool {
        self.graph.is_composed() || self.subgraphs.values().any(FixtureGraphSpec::is_composed)
    }
}

impl UnparsedCase {
    /// Returns all parts of the case as one map, so that a caller can change a part: the case's own part under
    /// `case`, the part shared with the other cases of its file under `file`.
    #[must_use]
    pub(crate) fn to_whole_document(&self) -> YamlNode {
        let mut parts = vec![("case".to_owned(), self.own.clone())];
        parts.extend(self.shared.clone().map(|shared| ("file".to_owned(), shared)));
        YamlNode { line: self.own.line, value: YamlValue::Map(parts) }
    }

    /// Returns the same case of other parts, as [`to_whole_document`](Self::to_whole_document) gave them.
    #[must_use]
    pub(crate) fn with_document(&self, whole: &YamlNode) -> Self {
        let own = whole.get_entry("case").unwrap_or(&self.own).clone();
        Self { name: self.name.clone(), dialect: self.dialect, own, shared: whole.get_entry("file").cloned() }
    }

    /// Returns the case's own part, and the part that it shares with the other cases of its file.
    #[must_use]
    pub(crate) fn into_parts(self) -> (YamlNode, Option<YamlNode>) {
        (self.own, self.shared)
    }

    /// Reads the case, strictly.
    ///
    /// # Errors
    /// For the first thing that is unknown in it.
    pub(crate) fn parse_case(self) -> Outcome<FixtureCaseSpec> {
        let mut block = LocatedNode::new(self.own, "").into_map_reader()?;
        let mut subgraphs = Subgraphs::new();
        let mut invariants = Vec::new();
        if let Some(shared) = self.shared {
            let mut shared = LocatedNode::new(shared, "").into_map_reader()?;
            take_subgraphs(&mut shared, &mut subgraphs)?;
            invariants.extend(shared.take_value("invariants"));
            // A file that no implementation can fail says so (observability 048); it is run as any other.
            shared.take_value("informative").map(|value| value.as_bool()).transpose()?;
            check_version(&mut shared)?;
        }
        check_version(&mut block)?;
        invariants.extend(block.take_value("invariants"));
        block.take_text("description")?;
        let mut telemetry = TelemetryCaseSpec::take_from_block(&mut block)?;
        let program = take_program(&mut block)?;
        let expected = take_case_expectations(&mut block)?;
        if program.expects_telemetry() || expected.iter().any(is_about_telemetry) {
            telemetry.require_recorders();
        }
        block.take_text("name")?;
        let store = block.take_value("session_store").map(adapt::parse_session_store).transpose()?;
        let paused =
            block.take_value("dev.singletree.paused_store").map(adapt::parse_paused_store).transpose()?;
        let mut graph = take_graph(&mut block, &mut subgraphs)?;
        complete_inner_graphs(&mut graph, &mut subgraphs)?;
        let spec = FixtureCaseSpec {
            graph,
            expected,
            telemetry,
            observers: match block.take_value("observers") {
                Some(list) => list
                    .into_items()?
                    .into_iter()
                    .map(ObserverSpec::from_yaml_node)
                    .collect::<Outcome<_>>()?,
                None => Vec::new(),
            },
            store,
            paused_raises: paused.unwrap_or(false),
            shape: block.take_value("session_state").map(parse_session_shape).transpose()?,
            auto_save: block.take_value("auto_save").map(|value| value.as_bool()).transpose()?,
            checkpointer: block.take_value("checkpointer").map(checkpoints::parse_backend).transpose()?,
            seeded: block.take_value("seeded_session"),
            migrations: block.take_value("session_migrations"),
            checkpoint_migrations: block.take_value("migrations"),
            tick: block.take_value("clock_stub").map(parse_clock_tick).transpose()?,
            compile_error: block.take_value("expected_compile_error"),
            compile_warning: block.take_value("expected_compile_warning"),
            subgraphs,
            program,
            invariants,
        };
        block.reject_remaining_keys()?;
        Ok(spec)
    }
}

/// Refuses fixtures of a later version (conformance-adapter §4.4).
pub(crate) fn check_version(block: &mut YamlMapReader) -> Outcome<()> {
    let Some(spot) = block.take_value("conformance_version") else { return Ok(()) };
    let parts: Result<Vec<u64>, _> = spot.as_text()?.split('.').map(str::parse).collect();
    match parts {
        Ok(parts) if parts.len() == 3 && parts.as_slice() <= VERSION.as_slice() => Ok(()),
        Ok(parts) if parts.len() == 3 => {
            Err(CaseFailure::reader_error(&spot.path, "fixture_version_unsupported"))
        }
        Ok(_) | Err(_) => Err(spot.unexpected_kind("a version of three numbers")),
    }
}

fn take_graph(block: &mut YamlMapReader, subgraphs: &mut Subgraphs) -> Outcome<FixtureGraphSpec> {
    let Some(nested) = block.take_value("graph") else {
        take_subgraphs(block, subgraphs)?;
        return FixtureGraphSpec::take_from_block(block);
    };
    let mut nested = nested.into_map_reader()?;
    take_subgraphs(&mut nested, subgraphs)?;
    let graph = FixtureGraphSpec::take_from_block(&mut nested)?;
    nested.reject_remaining_keys()?;
    Ok(graph)
}

fn parse_session_shape(spot: LocatedNode) -> Outcome<SessionShape> {
    let mut block = spot.into_map_reader()?;
    let fields = block.take_required("fields")?.into_texts()?;
    block.reject_remaining_keys()?;
    Ok(SessionShape::from_field_names(fields.iter().map(String::as_str)))
}

fn parse_clock_tick(spot: LocatedNode) -> Outcome<Duration> {
    let mut block = spot.into_map_reader()?;
    let kind = block.take_required("type")?;
    if kind.as_text()? != "deterministic_monotonic" {
        return Err(CaseFailure::reader_error(&kind.path, format!("unknown clock '{}'", kind.as_text()?)));
    }
    let tick = parse_milliseconds(&block.take_required("advance_ms_per_call")?)?;
    block.reject_remaining_keys()?;
    Ok(tick)
}

impl CaseProgram {
    /// Tells whether an expectation of one invocation is about telemetry.
    fn expects_telemetry(&self) -> bool {
        let expects = |invocation: &InvocationSpec| invocation.expected.iter().any(is_about_telemetry);
        match self {
            Self::Invoke(invocations, _) => invocations.iter().any(expects),
            Self::Checkpointed(program) => {
                expects(&program.first)
                    || program.resume.as_ref().is_some_and(|resume| expects(&resume.invocation))
            }
            Self::Compile | Self::Base(_) | Self::Chat(_) => false,
        }
    }
}

/// Takes what is expected of all invocations together, beside a list of them.
fn take_case_expectations(block: &mut YamlMapReader) -> Outcome<Vec<(String, LocatedNode)>> {
    let Some(expected) = block.take_value("expected") else { return Ok(Vec::new()) };
    let mut expected = expected.into_map_reader()?;
    let mut taken = Vec::new();
    while let Some(entry) = expected.take_next_entry() {
        taken.push(entry);
    }
    Ok(taken)
}

fn take_program(block: &mut YamlMapReader) -> Outcome<CaseProgram> {
    let has = |block: &YamlMapReader, key: &str| block.remaining_keys().any(|it| it == key);
    if has(block, "transmissions") {
        return HarnessCaseSpec::take_from_block(block).map(CaseProgram::Base);
    }
    if has(block, "chat_turns") {
        return ChatCaseSpec::take_from_block(block).map(CaseProgram::Chat);
    }
    if has(block, "checkpointer") && !has(block, "invocations") {
        return CheckpointCaseSpec::take_from_block(block).map(|it| CaseProgram::Checkpointed(Box::new(it)));
    }
    let times = block.take_value("run_count").map(|value| value.as_integer()).transpose()?.unwrap_or(1);
    let times = usize::try_from(times).ok().filter(|it| *it > 0);
    let times = times.ok_or_else(|| CaseFailure::reader_error("run_count", "is no number of runs"))?;
    if let Some(list) = block.take_value("invocations") {
        // A number is so many invocations that are all alike (observability 009, 011).
        if let Ok(count) = list.as_integer() {
            let count = usize::try_from(count).ok().filter(|count| (1..=MOST_INVOCATIONS).contains(count));
            let count = count.ok_or_else(|| list.unexpected_kind("a number of invocations"))?;
            let expected = block.take_value("expected");
            let invocation = InvocationSpec::take_from_block(block)?;
            block.put_back(expected);
            return Ok(CaseProgram::Invoke(vec![invocation; count], times));
        }
        let shared = block.take_value("initial_state").map(parse_literals).transpose()?;
        let one = |it: LocatedNode| {
            let mut it = it.into_map_reader()?;
            let spec = InvocationSpec::take_from_block(&mut it)?.with_default_initial_state(shared.as_ref());
            it.reject_remaining_keys()?;
            Ok(spec)
        };
        let invocations = list.into_items()?.into_iter().map(one).collect::<Outcome<_>>()?;
        return Ok(CaseProgram::Invoke(invocations, times));
    }
    let runs = has(block, "expected") || has(block, "expected_error");
    if !runs && (has(block, "expected_compile_error") || has(block, "expected_compile_warning")) {
        block.take_value("initial_state");
        return Ok(CaseProgram::Compile);
    }
    Ok(CaseProgram::Invoke(vec![InvocationSpec::take_from_block(block)?], times))
}
