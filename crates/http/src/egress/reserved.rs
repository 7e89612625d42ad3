//! Addresses that are not of the public network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the reserved kind of an address; `None` for a public one.
///
/// An IPv6 address that carries an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo) has the kind of that IPv4
/// address.
#[must_use]
pub fn reserved_address_kind(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(it) => reserved_ipv4_kind(it),
        IpAddr::V6(it) => reserved_ipv6_kind(it),
    }
}

fn reserved_ipv4_kind(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (0, ..) => Some("unspecified"),
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Some("private"),
        (100, 64..=127, _) => Some("shared (carrier-grade NAT)"),
        (127, ..) => Some("loopback"),
        (169, 254, _) => Some("link-local or metadata"),
        (192, 0, 0) => Some("protocol assignment"),
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) => Some("documentation"),
        (192, 88, 99) => Some("relay"),
        (198, 18..=19, _) => Some("benchmarking"),
        // The metadata service and the wire server of a large cloud; a public address that is not one.
        (168, 63, 129) if address == Ipv4Addr::new(168, 63, 129, 16) => Some("metadata"),
        (224..=239, ..) => Some("multicast"),
        (240..=255, ..) => Some("reserved or broadcast"),
        _ => None,
    }
}

fn reserved_ipv6_kind(address: Ipv6Addr) -> Option<&'static str> {
    let parts = address.segments();
    if address.is_unspecified() {
        return Some("unspecified");
    }
    if address.is_loopback() {
        return Some("loopback");
    }
    if let Some(inner) = embedded_ipv4_address(parts) {
        return reserved_ipv4_kind(inner);
    }
    match parts {
        [0xfd00, 0x0ec2, ..] => Some("metadata"),
        [0xfc00..=0xfdff, ..] => Some("unique-local"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xfec0..=0xfeff, ..] => Some("site-local"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Some("documentation"),
        [0x0064, 0xff9b, 1, ..] => Some("local NAT64"),
        [0x0100, 0, 0, 0, ..] => Some("discard"),
        [0x2001, 0..=0x01ff, ..] => Some("protocol assignment"),
        // Everything that is in use is of 2000::/3.
        [0x2000..=0x3fff, ..] => None,
        _ => Some("unassigned"),
    }
}

/// Returns the IPv4 address that an IPv6 address stands for.
fn embedded_ipv4_address(parts: [u16; 8]) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match parts {
        // Compatible (::a.b.c.d), mapped (::ffff:a.b.c.d), translated (::ffff:0:a.b.c.d), NAT64 (64:ff9b::a.b.c.d).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x0064, 0xff9b, 0, 0, 0, 0, high, low] => Some(of(high, low)),
        // 6to4 carries the address of its relay.
        [0x2002, high, low, ..] => Some(of(high, low)),
        // Teredo carries the address of its client, inverted.
        [0x2001, 0, .., high, low] => Some(of(!high, !low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
