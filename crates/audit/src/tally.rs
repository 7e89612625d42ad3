//! Who won how often.

use std::fmt;

use serde::Serialize;

/// How often each side of a race won.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RaceStatistics {
    /// The race.
    pub race: String,
    /// The two sides.
    pub sides: [String; 2],
    /// How often each won.
    pub wins: [u64; 2],
}

impl RaceStatistics {
    /// Starts to count.
    #[must_use]
    pub fn new(race: impl Into<String>, sides: [&str; 2]) -> Self {
        Self { race: race.into(), sides: sides.map(str::to_owned), wins: [0, 0] }
    }

    /// Counts a win of the first side, or of the second.
    pub fn count_win(&mut self, first: bool) {
        self.wins[usize::from(!first)] += 1;
    }

    /// Returns how many rounds there were.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.wins.iter().sum()
    }

    /// Returns the share of the first side, from 0 to 1; a half before the first round.
    #[must_use]
    pub fn first_side_share(&self) -> f64 {
        if self.rounds() == 0 { 0.5 } else { self.wins[0] as f64 / self.rounds() as f64 }
    }

    /// Returns the share of the side that won less often.
    #[must_use]
    pub fn smaller_share(&self) -> f64 {
        self.first_side_share().min(1.0 - self.first_side_share())
    }
}

impl fmt::Display for RaceStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = &self.sides;
        let (share, rounds) = (100.0 * self.first_side_share(), self.rounds());
        write!(f, "{}, {rounds} rounds, {first} won {share:.1} %, {second} {:.1} %", self.race, 100.0 - share)
    }
}
