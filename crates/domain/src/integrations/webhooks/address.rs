//! Addresses that a webhook may be sent to, decided by one table of networks.
//!
//! The table covers the special-purpose registries of IANA for [IPv4] and [IPv6] (RFC 6890, RFC 8190), multicast, and
//! the metadata services of clouds outside of these. Networks that the registries mark as globally reachable are
//! refused, too: no receiver has such an address, and an anycast address leads to a device in the network of the
//! server. Within IPv6, only the networks allocated for global unicast are public.
//!
//! [IPv4]: https://www.iana.org/assignments/iana-ipv4-special-registry/
//! [IPv6]: https://www.iana.org/assignments/iana-ipv6-special-registry/

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Rule for the addresses of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressRule {
    /// The public network.
    Public,
    /// This machine or the operator's network: loopback, private and shared ranges.
    Local,
    /// Never allowed for a webhook, also if local addresses are allowed.
    Never,
    /// Judged by an embedded IPv4 address, which has this many bits after it.
    Embedded(u32),
}

use AddressRule::{Embedded, Local, Never, Public};

/// A network and its rule.
#[derive(Debug, Clone, Copy)]
struct Network {
    first: IpAddr,
    /// Number of leading bits that all addresses of the network have in common.
    prefix: u32,
    rule: AddressRule,
}

const fn v4(first: [u8; 4], prefix: u32, rule: AddressRule) -> Network {
    let [a, b, c, d] = first;
    Network {
        first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        prefix,
        rule,
    }
}

const fn v6(first: [u16; 8], prefix: u32, rule: AddressRule) -> Network {
    let [a, b, c, d, e, f, g, h] = first;
    Network {
        first: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)),
        prefix,
        rule,
    }
}

/// The networks with their sources. The rule of the smallest network that contains an address applies.
const NETWORKS: [Network; 48] = [
    v4([0, 0, 0, 0], 0, Public),
    // "This network", RFC 791.
    v4([0, 0, 0, 0], 8, Never),
    // Private use, RFC 1918.
    v4([10, 0, 0, 0], 8, Local),
    // Shared address space, RFC 6598.
    v4([100, 64, 0, 0], 10, Local),
    // Metadata service of Alibaba Cloud.
    v4([100, 100, 100, 200], 32, Never),
    // Loopback, RFC 1122.
    v4([127, 0, 0, 0], 8, Local),
    // Services of the host in Azure, in a public range.
    v4([168, 63, 129, 16], 32, Never),
    // Link-local, RFC 3927. Most clouds have their metadata service here, at 169.254.169.254.
    v4([169, 254, 0, 0], 16, Never),
    // Private use, RFC 1918.
    v4([172, 16, 0, 0], 12, Local),
    // Protocol assignments, RFC 6890: DS-Lite (RFC 7335), the dummy address (RFC 7600), the anycast addresses of port
    // control and relays (RFC 7723, RFC 8155), NAT64 discovery (RFC 8880), and a metadata service of Oracle at
    // 192.0.0.192.
    v4([192, 0, 0, 0], 24, Never),
    // Documentation, RFC 5737.
    v4([192, 0, 2, 0], 24, Never),
    // AS112, RFC 7535.
    v4([192, 31, 196, 0], 24, Never),
    // Multicast tunnels, RFC 7450.
    v4([192, 52, 193, 0], 24, Never),
    // Deprecated anycast of 6to4 relays, RFC 7526.
    v4([192, 88, 99, 0], 24, Never),
    // Private use, RFC 1918.
    v4([192, 168, 0, 0], 16, Local),
    // AS112, RFC 7534.
    v4([192, 175, 48, 0], 24, Never),
    // Benchmarks, RFC 2544.
    v4([198, 18, 0, 0], 15, Never),
    // Documentation, RFC 5737.
    v4([198, 51, 100, 0], 24, Never),
    v4([203, 0, 113, 0], 24, Never),
    // Multicast, RFC 5771.
    v4([224, 0, 0, 0], 4, Never),
    // Reserved, RFC 1112, with the broadcast address, RFC 919.
    v4([240, 0, 0, 0], 4, Never),
    // Not allocated.
    v6([0, 0, 0, 0, 0, 0, 0, 0], 0, Never),
    // IPv4-compatible, RFC 4291.
    v6([0, 0, 0, 0, 0, 0, 0, 0], 96, Embedded(0)),
    // Unspecified, RFC 4291.
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128, Never),
    // Loopback, RFC 4291.
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, Local),
    // IPv4-mapped, RFC 4291.
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, Embedded(0)),
    // IPv4-translated, RFC 2765.
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, Embedded(0)),
    // NAT64, RFC 6052.
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, Embedded(0)),
    // NAT64 with a local prefix, RFC 8215. Its length, and so the position of the IPv4 address, is not known.
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Never),
    // Discard, RFC 6666.
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, Never),
    // Dummy prefix, RFC 9780.
    v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64, Never),
    // Global unicast, RFC 4291.
    v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Public),
    // Protocol assignments, RFC 2928: Teredo (RFC 4380), anycast of port control, relays and service registration
    // (RFC 7723, RFC 8155, RFC 9665), benchmarks (RFC 5180), multicast tunnels (RFC 7450), AS112 (RFC 7535), ORCHID
    // (RFC 4843, RFC 7343) and tags of drones (RFC 9374).
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Never),
    // Documentation, RFC 3849.
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, Never),
    // 6to4, RFC 3056.
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Embedded(80)),
    // AS112, RFC 7534.
    v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48, Never),
    // Documentation, RFC 9637.
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Never),
    // Segment routing, RFC 9602.
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, Never),
    // Unique local, RFC 4193.
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Local),
    // Metadata services of Scaleway, Alibaba Cloud, Akamai and Oracle, the services of AWS for its instances, and the
    // metadata service of Google Cloud.
    v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128, Never),
    v6([0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200], 128, Never),
    v6([0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1], 128, Never),
    v6([0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128, Never),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32, Never),
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, Never),
    // Link-local, RFC 4291, and the deprecated site-local addresses, RFC 3879.
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Never),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Never),
    // Multicast, RFC 4291.
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Never),
];

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                (first.to_bits() ^ address.to_bits()).leading_zeros() >= self.prefix
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                (first.to_bits() ^ address.to_bits()).leading_zeros() >= self.prefix
            }
            _ => false,
        }
    }
}

/// Returns whether a webhook may be sent to this address; `local` also allows loopback and private ranges.
#[must_use]
pub fn is_allowed(address: IpAddr, local: bool) -> bool {
    let containing = NETWORKS.iter().filter(|network| network.contains(address));
    match containing
        .max_by_key(|network| network.prefix)
        .map(|network| network.rule)
    {
        Some(Public) => true,
        Some(Local) => local,
        Some(Never) | None => false,
        Some(Embedded(after)) => embedded_v4(address, after).is_some_and(|inner| is_allowed(inner, local)),
    }
}

/// Returns the IPv4 address that an IPv6 address embeds before its last `after` bits.
fn embedded_v4(address: IpAddr, after: u32) -> Option<IpAddr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => {
            let [.., a, b, c, d] = (address.to_bits() >> after).to_be_bytes();
            Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether an address is allowed without and with local addresses.
    fn result(address: IpAddr) -> (bool, bool) {
        (is_allowed(address, false), is_allowed(address, true))
    }

    fn is_allowed_by_setting(text: &str) -> (bool, bool) {
        result(text.parse().expect("an address"))
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
            "168.63.129.16",
            "::ffff:168.63.129.16",
            "64:ff9b::a83f:8110",
            "2002:a83f:8110::1",
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

    /// First and last address of each network of the table, the result for both, and the results for the addresses
    /// before and after the network.
    const EDGES: [&str; 46] = [
        "0.0.0.0 0.255.255.255 never - public",
        "10.0.0.0 10.255.255.255 local public public",
        "100.64.0.0 100.127.255.255 local public public",
        "100.100.100.200 100.100.100.200 never local local",
        "127.0.0.0 127.255.255.255 local public public",
        "168.63.129.16 168.63.129.16 never public public",
        "169.254.0.0 169.254.255.255 never public public",
        "172.16.0.0 172.31.255.255 local public public",
        "192.0.0.0 192.0.0.255 never public public",
        "192.0.2.0 192.0.2.255 never public public",
        "192.31.196.0 192.31.196.255 never public public",
        "192.52.193.0 192.52.193.255 never public public",
        "192.88.99.0 192.88.99.255 never public public",
        "192.168.0.0 192.168.255.255 local public public",
        "192.175.48.0 192.175.48.255 never public public",
        "198.18.0.0 198.19.255.255 never public public",
        "198.51.100.0 198.51.100.255 never public public",
        "203.0.113.0 203.0.113.255 never public public",
        "224.0.0.0 239.255.255.255 never public never",
        "240.0.0.0 255.255.255.255 never never -",
        ":: ::ffff:ffff never - never",
        ":: :: never - local",
        "::1 ::1 local never never",
        "::ffff:0:0 ::ffff:ffff:ffff never never never",
        "::ffff:0:0:0 ::ffff:0:ffff:ffff never never never",
        "64:ff9b:: 64:ff9b::ffff:ffff never never never",
        "64:ff9b:1:: 64:ff9b:1:ffff:ffff:ffff:ffff:ffff never never never",
        "100:: 100::ffff:ffff:ffff:ffff never never never",
        "100:0:0:1:: 100::1:ffff:ffff:ffff:ffff never never never",
        "2000:: 3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff public never never",
        "2001:: 2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff never public public",
        "2001:db8:: 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff never public public",
        "2002:: 2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff never public public",
        "2620:4f:8000:: 2620:4f:8000:ffff:ffff:ffff:ffff:ffff never public public",
        "3fff:: 3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff never public public",
        "5f00:: 5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff never never never",
        "fc00:: fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff local never never",
        "fd00:42::42 fd00:42::42 never local local",
        "fd00:100::100:200 fd00:100::100:200 never local local",
        "fd00:a9fe:a9fe::1 fd00:a9fe:a9fe::1 never local local",
        "fd00:c1::a9fe:a9fe fd00:c1::a9fe:a9fe never local local",
        "fd00:ec2:: fd00:ec2:ffff:ffff:ffff:ffff:ffff:ffff never local local",
        "fd20:ce::254 fd20:ce::254 never local local",
        "fe80:: febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff never never never",
        "fec0:: feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff never never never",
        "ff00:: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff never never -",
    ];

    /// Returns the results of a word without and with local addresses.
    fn expected(word: &str) -> Option<(bool, bool)> {
        match word {
            "public" => Some((true, true)),
            "local" => Some((false, true)),
            "never" => Some((false, false)),
            _ => None,
        }
    }

    /// Returns the address before or after another one.
    fn neighbor(address: IpAddr, step: i8) -> Option<IpAddr> {
        match address {
            IpAddr::V4(address) => {
                let bits = address.to_bits().checked_add_signed(step.into())?;
                Some(Ipv4Addr::from_bits(bits).into())
            }
            IpAddr::V6(address) => {
                let bits = address.to_bits().checked_add_signed(step.into())?;
                Some(Ipv6Addr::from_bits(bits).into())
            }
        }
    }

    /// Returns the first and last address of a network.
    fn bounds(network: &Network) -> (IpAddr, IpAddr) {
        let last = match network.first {
            IpAddr::V4(first) => {
                let rest = u32::MAX.checked_shr(network.prefix).unwrap_or(0);
                Ipv4Addr::from_bits(first.to_bits() | rest).into()
            }
            IpAddr::V6(first) => {
                let rest = u128::MAX.checked_shr(network.prefix).unwrap_or(0);
                Ipv6Addr::from_bits(first.to_bits() | rest).into()
            }
        };
        (network.first, last)
    }

    #[test]
    fn every_network_begins_and_ends_at_its_first_and_last_address() {
        let mut tested = Vec::new();
        for edge in EDGES {
            let words: Vec<&str> = edge.split(' ').collect();
            let [first, last, inside, before, after] = words[..] else {
                panic!("{edge}")
            };
            let edges: (IpAddr, IpAddr) = (
                first.parse().expect("an address"),
                last.parse().expect("an address"),
            );
            assert_eq!(Some(result(edges.0)), expected(inside), "{edge}");
            assert_eq!(Some(result(edges.1)), expected(inside), "{edge}");
            assert_eq!(neighbor(edges.0, -1).map(result), expected(before), "{edge}");
            assert_eq!(neighbor(edges.1, 1).map(result), expected(after), "{edge}");
            tested.push(edges);
        }
        let rows: Vec<_> = NETWORKS
            .iter()
            .filter(|network| network.prefix > 0)
            .map(bounds)
            .collect();
        assert_eq!(rows, tested);
    }

    /// The registries as of 2025-10, with those networks that they mark as globally reachable.
    #[test]
    fn no_network_of_the_registries_is_public() {
        for text in [
            "0.0.0.0/8",
            "0.0.0.0/32",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.0.0/29",
            "192.0.0.8/32",
            "192.0.0.9/32",
            "192.0.0.10/32",
            "192.0.0.170/32",
            "192.0.0.171/32",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.88.99.2/32",
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "240.0.0.0/4",
            "255.255.255.255/32",
            "::1/128",
            "::/128",
            "::ffff:0:0/96",
            "64:ff9b::/96",
            "64:ff9b:1::/48",
            "100::/64",
            "100:0:0:1::/64",
            "2001::/23",
            "2001::/32",
            "2001:1::1/128",
            "2001:1::2/128",
            "2001:1::3/128",
            "2001:2::/48",
            "2001:3::/32",
            "2001:4:112::/48",
            "2001:10::/28",
            "2001:20::/28",
            "2001:30::/28",
            "2001:db8::/32",
            "2002::/16",
            "2620:4f:8000::/48",
            "3fff::/20",
            "5f00::/16",
            "fc00::/7",
            "fe80::/10",
        ] {
            let (first, prefix) = text.split_once('/').expect("a network");
            let network = Network {
                first: first.parse().expect("an address"),
                prefix: prefix.parse().expect("a length"),
                rule: Never,
            };
            let (first, last) = bounds(&network);
            assert!(!is_allowed(first, false) && !is_allowed(last, false), "{text}");
        }
    }
}
