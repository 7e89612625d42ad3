//! Some of the tools of a server.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use singletree_llm::BoxFuture;
use singletree_tools::{Offer, Tool, Toolset};

use super::tools::model_tool_name;
use crate::suggest::did_you_mean;
use crate::unoffered::{UnofferedReporter, UnofferedTools};

/// Those tools of a set whose names are listed. Other tools do not exist, neither for the model nor for a caller.
#[derive(Debug)]
pub(crate) struct SelectedToolset {
    all: Arc<dyn Toolset>,
    /// Their own names.
    names: BTreeSet<String>,
    teller: UnofferedReporter,
    /// The last result, and the tools it was made of: while those are the same, the result is the same.
    last: Mutex<Option<(Tools, Tools)>>,
}

type Tools = Arc<[Arc<dyn Tool>]>;

impl SelectedToolset {
    pub(crate) fn new(
        all: Arc<dyn Toolset>,
        names: impl IntoIterator<Item = String>,
        teller: UnofferedReporter,
    ) -> Self {
        Self { all, names: names.into_iter().collect(), teller, last: Mutex::default() }
    }

    fn select_listed_tools(&self, all: Tools) -> Tools {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, picked)) = &*last
            && Arc::ptr_eq(of, &all)
        {
            return picked.clone();
        }
        let server = self.all.name();
        let wanted: BTreeSet<String> = self.names.iter().map(|name| model_tool_name(server, name)).collect();
        let picked: Tools =
            all.iter().filter(|item| wanted.contains(item.definition().name())).cloned().collect();
        self.report_missing_tools(&all);
        *last = Some((all, picked.clone()));
        picked
    }

    /// Tells which tools are listed that the set does not have.
    fn report_missing_tools(&self, all: &Tools) {
        let server = self.all.name();
        let prefix = model_tool_name(server, "");
        let known: BTreeSet<&str> =
            all.iter().filter_map(|item| item.definition().name().strip_prefix(&prefix)).collect();
        for name in self.names.iter().filter(|name| !known.contains(name.as_str())) {
            self.teller.report_unoffered(&UnofferedTools {
                server: server.to_owned(),
                tool: Some(name.clone()),
                why: "the server has no such tool".to_owned(),
                hint: did_you_mean(name, known.iter().copied()),
            });
        }
    }
}

impl Toolset for SelectedToolset {
    fn name(&self) -> &str {
        self.all.name()
    }

    fn offer_tools(&self) -> BoxFuture<'_, Offer> {
        Box::pin(async move { self.all.offer_tools().await.map(|all| self.select_listed_tools(all)) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use singletree_llm::ToolDefinition;
    use singletree_tools::{Effect, Invocation, Output, Recovery};

    use super::*;

    #[derive(Debug)]
    struct Named(ToolDefinition);

    impl Tool for Named {
        fn definition(&self) -> &ToolDefinition {
            &self.0
        }

        fn effect(&self) -> Effect {
            Effect::Read
        }

        fn on_unknown_outcome(&self) -> Recovery {
            Recovery::Rerun
        }

        fn call<'a>(&'a self, _: Invocation<'a>) -> BoxFuture<'a, singletree_tools::Result<Output>> {
            Box::pin(async { Ok(Output::text("done")) })
        }
    }

    #[derive(Debug)]
    struct Rooms(Tools);

    impl Toolset for Rooms {
        fn name(&self) -> &str {
            "rooms"
        }

        fn offer_tools(&self) -> BoxFuture<'_, Offer> {
            Box::pin(async { Ok(self.0.clone()) })
        }
    }

    fn rooms() -> Rooms {
        let tool = |name| {
            let schema = json!({ "type": "object" });
            Arc::new(Named(ToolDefinition::new(name, "", schema).unwrap())) as Arc<dyn Tool>
        };
        Rooms([tool("rooms__list"), tool("rooms__book_room")].into())
    }

    #[tokio::test]
    async fn only_what_is_listed_is_there_and_it_stays_the_same() {
        let picked =
            SelectedToolset::new(Arc::new(rooms()), ["list".to_owned()], UnofferedReporter::new(None));
        let first = picked.offer_tools().await.unwrap();
        assert_eq!(first.iter().map(|it| it.definition().name()).collect::<Vec<_>>(), ["rooms__list"]);
        assert!(Arc::ptr_eq(&first, &picked.offer_tools().await.unwrap()));
    }

    #[tokio::test]
    async fn what_is_listed_and_not_there_is_told_once_with_what_was_meant() {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = told.clone();
        let teller =
            UnofferedReporter::new(Some(Arc::new(move |it| sink.lock().unwrap().push(it.to_string()))));
        let names = || ["list".to_owned(), "book_roo".to_owned()];
        for _agent in 0..2 {
            let picked = SelectedToolset::new(Arc::new(rooms()), names(), teller.clone());
            assert_eq!(picked.offer_tools().await.unwrap().len(), 1);
            assert_eq!(picked.offer_tools().await.unwrap().len(), 1);
        }
        let expect = "the tool `rooms.book_roo` is not offered: the server has no such tool (did you mean `book_room`?)";
        assert_eq!(*told.lock().unwrap(), [expect]);
    }
}
