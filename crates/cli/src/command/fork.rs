//! `singletree fork`: another conversation with the same beginning.

use singletree::harness::ForkOptions;

use crate::args::Fork;
use crate::error::Result;
use crate::exit::COMPLETED;
use crate::json::{self, Done};
use crate::place::Place;
use crate::print::Screen;
use crate::served::{self, Reached};
use crate::wire::House;

/// Runs the command.
pub(crate) async fn run(args: Fork) -> Result<u8> {
    let place = Place::of(args.common.db.db.as_deref())?;
    let fork = match served::reach(&place, &args.server, House::open_empty(&place, "fork")).await? {
        Reached::There(served) => served.fork(&args.session, args.at, args.to).await?,
        Reached::Here(house) => {
            let mut options = ForkOptions::new();
            if let Some(at) = args.at {
                options = options.at(at);
            }
            if let Some(to) = args.to {
                options = options.session(to);
            }
            let forked = house.chat.fork(&args.session, options).await;
            house.close().await;
            forked?.session
        }
    };
    let mut screen = Screen::out();
    match args.common.json {
        true => json::print(&mut screen, &Done::Forked(&fork))?,
        false => screen.line(&fork)?,
    }
    Ok(COMPLETED)
}
