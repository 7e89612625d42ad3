//! Pages of the guide whose code is run.

#[doc = include_str!("../../../docs/images.md")]
#[derive(Debug)]
pub struct Images;
