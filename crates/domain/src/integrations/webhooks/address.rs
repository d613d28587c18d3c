//! Addresses that a webhook may be sent to. Every address that is not clearly public is refused. An address
//! that embeds another (mapped, translated, tunneled) is judged by the embedded one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Network that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressKind {
    /// The public network.
    Public,
    /// This machine or the operator's network: loopback, private and shared ranges.
    Local,
    /// Never allowed for a webhook: link-local, metadata services, multicast, reserved ranges.
    Never,
}

/// Returns whether a webhook may be sent to this address; `local` also allows loopback and private ranges.
#[must_use]
pub fn is_allowed(address: IpAddr, local: bool) -> bool {
    let reach = match address {
        IpAddr::V4(address) => reach_of_v4(address),
        IpAddr::V6(address) => reach_of_v6(address),
    };
    match reach {
        AddressKind::Public => true,
        AddressKind::Local => local,
        AddressKind::Never => false,
    }
}

/// Addresses of the metadata services of two large clouds, which are in otherwise private ranges.
const METADATA_V4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254);

fn reach_of_v4(address: Ipv4Addr) -> AddressKind {
    if address == METADATA_V4 {
        return AddressKind::Never;
    }
    match address.octets() {
        [127 | 10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => AddressKind::Local,
        // This network, link-local (with the metadata address), protocol assignments, documentation, 6to4
        // relays, benchmarks, multicast, reserved and broadcast.
        [0 | 224..=255, ..]
        | [169, 254, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18..=19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => AddressKind::Never,
        _ => AddressKind::Public,
    }
}

fn reach_of_v6(address: Ipv6Addr) -> AddressKind {
    if address == METADATA_V6 {
        return AddressKind::Never;
    }
    let inner = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        reach_of_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressKind::Local,
        [0xfc00..=0xfdff, ..] => AddressKind::Local,
        // IPv4-mapped, IPv4-compatible (with the unspecified address), and the translated form of SIIT.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => inner(high, low),
        // NAT64.
        [0x0064, 0xff9b, 0, 0, 0, 0, high, low] => inner(high, low),
        // 6to4.
        [0x2002, high, low, ..] => inner(high, low),
        // Protocol assignments with Teredo, documentation.
        [0x2001, 0..=0x01ff, ..] | [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => AddressKind::Never,
        // Ranges allocated for the public network, without link-local, site-local and multicast.
        [0x2000..=0x3fff, ..] => AddressKind::Public,
        _ => AddressKind::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed_by_setting(text: &str) -> (bool, bool) {
        let address = text.parse().expect("an address");
        (is_allowed(address, false), is_allowed(address, true))
    }

    #[test]
    fn public_addresses_are_allowed() {
        for text in [
            "93.184.215.14",
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "64:ff9b::101:101",
            "2002:101:101::1",
        ] {
            assert_eq!(is_allowed_by_setting(text), (true, true), "{text}");
        }
    }

    #[test]
    fn local_addresses_require_setting_in_all_notations() {
        for text in [
            "127.0.0.1",
            "127.8.9.10",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "::1",
            "fc00::1",
            "fd12::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::c0a8:1",
            "2002:7f00:1::",
            "2002:a00:1::1",
        ] {
            assert_eq!(is_allowed_by_setting(text), (false, true), "{text}");
        }
    }

    #[test]
    fn metadata_multicast_and_reserved_addresses_are_rejected() {
        for text in [
            "169.254.169.254",
            "100.100.100.200",
            "fd00:ec2::254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "::ffff:0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "192.0.0.192",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "192.88.99.1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "64:ff9b:1::1",
            "100::1",
            "5f00::1",
        ] {
            assert_eq!(is_allowed_by_setting(text), (false, false), "{text}");
        }
    }
}
