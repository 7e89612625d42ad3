//! The tools of an agent at one moment, and the agent's rights to them: offered, held back, called.

use std::sync::Arc;

use singletree_llm::{Timer, ToolCall, ToolDefinition};
use singletree_tools::{CallOrigin, Error, IdempotencyKey, Output, Recovery, Tool, Toolbox};

use crate::hand_off::HandOffTool;
use crate::member::AgentMember;

/// The tools of an agent at one moment.
#[derive(Debug)]
pub(crate) struct AgentToolbox<'a> {
    member: &'a AgentMember,
    toolbox: Option<Toolbox>,
    /// Whether only tools that change nothing and need no approval may be used.
    reads: bool,
}

impl<'a> AgentToolbox<'a> {
    pub(crate) fn new(member: &'a AgentMember, toolbox: Option<Toolbox>) -> Self {
        Self { member, toolbox, reads: false }
    }

    /// Leaves out tools that change something, and tools that need approval.
    pub(crate) fn into_read_only(self) -> Self {
        Self { reads: true, ..self }
    }

    /// Returns the tools that the model is offered: first those that the agent may use, then its hand-offs.
    pub(crate) fn definitions(&self) -> Arc<[ToolDefinition]> {
        let all = self.toolbox.as_ref().map(Toolbox::definitions).unwrap_or_default();
        if self.member.allowed.is_none() && self.member.hand_offs.is_empty() && !self.reads {
            return all;
        }
        let own = all.iter().filter(|item| self.may_use_tool(item.name())).cloned();
        own.chain(self.member.hand_offs.iter().map(|hand_off| hand_off.definition.clone())).collect()
    }

    /// Tells whether a name is one of a tool that the agent may use. The name of a hand-off is no tool's.
    fn may_use_tool(&self, name: &str) -> bool {
        let listed = self.member.allowed.as_ref().is_none_or(|allowed| allowed.contains(name));
        listed
            && self.member.hand_offs.iter().all(|hand_off| hand_off.definition.name() != name)
            && (!self.reads || self.is_harmless_tool(name))
    }

    fn is_harmless_tool(&self, name: &str) -> bool {
        let effect = self.toolbox.as_ref().and_then(|toolbox| toolbox.find_tool(name)).map(Tool::effect);
        effect.is_some_and(|effect| {
            !effect.has_side_effects() && !self.member.approval.needs_approval(name, effect)
        })
    }

    /// Returns whom a call hands the conversation to, if it does.
    pub(crate) fn find_hand_off(&self, call: &ToolCall) -> Option<&'a HandOffTool> {
        let named = self.member.hand_offs.iter().find(|hand_off| hand_off.definition.name() == call.name)?;
        let arguments = call.arguments.as_ref()?;
        named.definition.schema().check_arguments(arguments).ok().map(|()| named)
    }

    fn is_hand_off_name(&self, name: &str) -> bool {
        self.member.hand_offs.iter().any(|hand_off| hand_off.definition.name() == name)
    }

    /// Says why a call hands nothing over.
    fn hand_off_error(&self, call: &ToolCall) -> Error {
        let named = self.member.hand_offs.iter().find(|hand_off| hand_off.definition.name() == call.name);
        let schema = named.map(|hand_off| hand_off.definition.schema());
        let fits =
            schema.zip(call.arguments.as_ref()).map(|(schema, arguments)| schema.check_arguments(arguments));
        match fits {
            Some(Err(mismatch)) => Error::Mismatched { mismatch },
            Some(Ok(())) | None => Error::Unreadable,
        }
    }

    /// Returns a tool by its name: none when the agent may not use it, or it is not there.
    pub(crate) fn find_usable_tool(&self, name: &str) -> Option<&dyn Tool> {
        self.toolbox.as_ref().filter(|_| self.may_use_tool(name))?.find_tool(name)
    }

    /// Returns the tool that a call would run: none when the agent may not use it, it is not there, or its arguments do
    /// not fit.
    pub(crate) fn find_runnable_tool(&self, call: &ToolCall) -> Option<&dyn Tool> {
        let toolbox = self.toolbox.as_ref().filter(|_| self.may_use_tool(&call.name))?;
        toolbox.check_call(call).ok()?;
        toolbox.find_tool(&call.name)
    }

    /// Returns how to recover a call that was begun and not recorded, if running it can change something.
    pub(crate) fn recovery_if_changing(&self, call: &ToolCall) -> Option<Recovery> {
        self.find_runnable_tool(call)
            .filter(|runnable| runnable.effect().has_side_effects())
            .map(Tool::on_unknown_outcome)
    }

    /// Tells whether a person has to decide about a call.
    pub(crate) fn needs_approval(&self, call: &ToolCall) -> bool {
        self.find_runnable_tool(call)
            .is_some_and(|runnable| self.member.approval.needs_approval(&call.name, runnable.effect()))
    }

    /// Runs work for several calls, a bounded number at once; results in the order of the calls.
    pub(crate) async fn run_in_order<R>(
        &self,
        work: impl IntoIterator<Item = impl Future<Output = R>>,
    ) -> Vec<R> {
        match &self.toolbox {
            Some(toolbox) => toolbox.run_in_order(work).await,
            None => {
                let mut results = Vec::new();
                for it in work {
                    results.push(it.await);
                }
                results
            }
        }
    }

    /// Runs a call. One that the agent may not make is answered as one of a tool that is not there, whoever asked for
    /// it.
    pub(crate) async fn run_call(
        &self,
        call: &ToolCall,
        key: &IdempotencyKey,
        origin: Option<&CallOrigin>,
        timer: &dyn Timer,
    ) -> Output {
        match &self.toolbox {
            Some(toolbox) if self.may_use_tool(&call.name) => {
                toolbox.call_with_origin(call, key, origin, timer).await
            }
            Some(_) | None if self.is_hand_off_name(&call.name) => {
                Output::from_error(&self.hand_off_error(call))
            }
            Some(_) | None => {
                let known: Vec<_> =
                    self.definitions().iter().map(|definition| definition.name().to_owned()).collect();
                Output::from_error(&Error::Unknown { name: call.name.clone(), known: known.join(", ") })
            }
        }
    }
}
