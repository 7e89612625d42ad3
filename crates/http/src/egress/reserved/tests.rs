//! Every block at its ends.

use super::*;

fn check(addresses: &[&str], expected: Option<&str>) {
    for text in addresses {
        let address: IpAddr = text.parse().unwrap();
        assert_eq!(reserved_address_kind(address), expected, "{text}");
    }
}

#[test]
fn public_addresses_pass() {
    check(&["1.1.1.1", "8.8.8.8", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0"], None);
    check(&["169.253.255.255", "198.17.0.0", "198.20.0.0", "192.0.1.0", "223.255.255.255"], None);
    check(
        &[
            "2606:4700:4700::1111",
            "2a00:1450:4001::1",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
            "2002:808:808::1",
        ],
        None,
    );
}

#[test]
fn every_reserved_block_is_known_at_both_ends() {
    check(&["0.0.0.0", "0.255.255.255"], Some("unspecified"));
    check(&["127.0.0.1", "127.255.255.255", "::1"], Some("loopback"));
    check(
        &["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255"],
        Some("private"),
    );
    check(&["100.64.0.0", "100.127.255.255"], Some("shared (carrier-grade NAT)"));
    check(&["169.254.0.0", "169.254.169.254", "169.254.255.255"], Some("link-local or metadata"));
    check(&["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"], Some("documentation"));
    check(&["198.18.0.0", "198.19.255.255"], Some("benchmarking"));
    check(&["224.0.0.0", "239.255.255.255", "ff02::1"], Some("multicast"));
    check(&["240.0.0.0", "255.255.255.255"], Some("reserved or broadcast"));
    check(&["168.63.129.16", "fd00:ec2::254"], Some("metadata"));
    check(&["fc00::1", "fdff:ffff::1"], Some("unique-local"));
    check(&["fe80::1", "febf::1"], Some("link-local"));
    check(&["fec0::1"], Some("site-local"));
    check(&["64:ff9b:1::7f00:1"], Some("local NAT64"));
    check(&["100::1"], Some("discard"));
    check(&["4000::1", "1::1", "e000::1"], Some("unassigned"));
}

#[test]
fn an_address_inside_an_address_is_what_it_is() {
    check(&["::ffff:127.0.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1"], Some("loopback"));
    check(&["2002:7f00:1::", "2002:7f00:1:1::1"], Some("loopback"));
    check(
        &["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"],
        Some("link-local or metadata"),
    );
    check(&["::ffff:10.1.2.3", "::10.1.2.3"], Some("private"));
    // Teredo: the client's address with every bit turned.
    check(&["2001:0:808:808::f5ff:fefd"], Some("private"));
    check(&["::"], Some("unspecified"));
}
