//! The tools of an agent as they are now.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;

use crate::effect::Effect;
use crate::error::Result;
use crate::tool::Tool;
use crate::toolbox::Toolbox;
use crate::toolset::{Offer, Toolset};

/// Tools that are always there, and sets of tools that come and go. Cheap to clone.
///
/// Each node of an agent asks for the tools of [`current_toolbox`](Self::current_toolbox) and works with that one [`Toolbox`]: the
/// definitions for the model, the approvals and the calls look tools up by name each time, so that a tool that went
/// away is answered as unknown and never mistaken for another.
#[derive(Debug, Clone)]
pub struct LiveToolbox {
    fixed: Toolbox,
    sets: Arc<[Arc<dyn Toolset>]>,
    last: Arc<Mutex<Option<OfferedToolbox>>>,
}

/// The last toolbox that was given out, and the offers it was made of.
#[derive(Debug)]
struct OfferedToolbox {
    offers: Vec<Arc<[Arc<dyn Tool>]>>,
    toolbox: Toolbox,
}

impl LiveToolbox {
    /// Makes it of tools that stay and sets that are asked, in this order.
    #[must_use]
    pub fn new(fixed: Toolbox, sets: impl IntoIterator<Item = Arc<dyn Toolset>>) -> Self {
        Self { fixed, sets: sets.into_iter().collect(), last: Arc::default() }
    }

    /// Makes one of the same sets and tools, and further tools that stay.
    ///
    /// # Errors
    ///
    /// `tool_duplicate` when two tools that stay have the same name.
    pub fn with_tools(&self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self> {
        let fixed = self.fixed.with_tools(tools)?;
        Ok(Self { fixed, sets: Arc::clone(&self.sets), last: Arc::default() })
    }

    /// Returns the tools as they are now. The sets are asked at the same time; one that is out of reach takes no other
    /// with it, and stands in [`Toolbox::unavailable_toolsets`]. Costs as much as asking as long as nothing changes.
    ///
    /// # Cancellation
    ///
    /// Dropping the future changes nothing.
    pub async fn current_toolbox(&self) -> Toolbox {
        if self.sets.is_empty() {
            return self.fixed.clone();
        }
        let offers: Vec<Offer> = join_all(self.sets.iter().map(|set| set.offer_tools())).await;
        let whole = offers.iter().map(|offer| offer.as_ref().ok().cloned()).collect::<Option<Vec<_>>>();
        if let (Some(whole), Some(last)) = (&whole, &*self.lock_last_toolbox())
            && whole.iter().zip(&last.offers).all(|(new, old)| Arc::ptr_eq(new, old))
        {
            return last.toolbox.clone();
        }
        let names = self.sets.iter().map(|set| set.name().to_owned());
        let toolbox = self.fixed.with_toolsets(names.zip(offers));
        *self.lock_last_toolbox() = whole.map(|offers| OfferedToolbox { offers, toolbox: toolbox.clone() });
        toolbox
    }

    /// Returns the effects that calls may have, without asking anybody: a set may hold anything, so it counts as
    /// dangerous.
    #[must_use]
    pub fn possible_effects(&self) -> Vec<Effect> {
        let fixed = self.fixed.definitions();
        let known = fixed.iter().filter_map(|it| self.fixed.find_tool(it.name())).map(crate::Tool::effect);
        known.chain(self.sets.iter().map(|_| Effect::Destructive)).collect()
    }

    fn lock_last_toolbox(&self) -> MutexGuard<'_, Option<OfferedToolbox>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Toolbox> for LiveToolbox {
    fn from(fixed: Toolbox) -> Self {
        Self::new(fixed, [])
    }
}
