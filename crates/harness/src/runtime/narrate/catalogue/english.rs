//! The sentences of the controller in English.

use super::Sentence;

pub(super) fn select_template(sentence: Sentence) -> &'static str {
    match sentence {
        Sentence::ApproveCall => "Approval is needed to use {tool} ({signal}).",
        Sentence::ApproveCallWith => "Approval is needed to use {tool} ({signal}): {arguments}",
        Sentence::ApproveAction => "Approval is needed: {signal}.",
        Sentence::Awaits => "Paused until {signal} arrives.",
        Sentence::Answered => "{signal} was answered; work goes on.",
        Sentence::Expired => "Nobody answered {signal} in time.",
        Sentence::GivenUp => "{signal} was cancelled.",
        Sentence::Unfit => "An answer to {signal} did not fit and was not taken.",
        Sentence::Calls => "The agent asks for {tools}.",
        Sentence::NotDone => "An action was not taken: {reason}",
        Sentence::ToolSucceeded => "{tool} succeeded.",
        Sentence::ToolFailed => "{tool} has failed; the agent is told.",
        Sentence::ToolInDoubt => "{tool}: it is not known whether this took effect.",
        Sentence::SomeTool => "A tool",
        Sentence::Summarised => {
            "The model is shown a summary in place of messages {from} to {to}; they are kept."
        }
        Sentence::NotSummarised => "No summary could be made ({category}); nothing has changed.",
        Sentence::Stopped => "The turn was stopped.",
        Sentence::Continues => "This conversation goes on from {session}.",
        Sentence::CutOff => "{text}… {bytes} bytes more, digest {digest}",
        Sentence::Done => "Done.",
    }
}
