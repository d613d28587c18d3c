//! IP networks, such as those of trusted proxies.

use std::net::IpAddr;

use ipnet::IpNet;

/// A list of networks; empty by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    /// Parses networks such as `10.0.0.0/8` and `fd00::/8`, and single addresses; empty texts are skipped.
    ///
    /// # Errors
    /// The first invalid text.
    pub fn parse(texts: &[String]) -> Result<Self, String> {
        let texts = texts
            .iter()
            .map(|text| text.trim())
            .filter(|text| !text.is_empty());
        let networks = texts.map(|text| {
            let network = text.parse().or_else(|_| {
                text.parse::<IpAddr>()
                    .map(|address| IpNet::from(address.to_canonical()))
            });
            network.map_err(|_| format!("{text} is neither an address nor a network such as 10.0.0.0/8"))
        });
        networks.collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether an address is in one of the networks. An IPv4-mapped IPv6 address counts as IPv4.
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Result<Networks, String> {
        Networks::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn networks_match_ipv4_ipv6_and_mapped_addresses() {
        let some = networks(&["10.0.0.0/8", " 192.0.2.7 ", "", "fd00::/8", "::ffff:198.51.100.1"])
            .expect("networks");
        for (address, inside) in [
            ("10.255.0.1", true),
            ("11.0.0.1", false),
            ("::ffff:10.1.2.3", true),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("198.51.100.1", true),
            ("fd12::1", true),
            ("fe80::1", false),
            ("::1", false),
        ] {
            assert_eq!(
                some.contain(address.parse().expect("an address")),
                inside,
                "{address}"
            );
        }
        assert!(!Networks::default().contain(IpAddr::from([127, 0, 0, 1])));
    }

    #[test]
    fn invalid_network_is_named_in_error() {
        for text in ["proxy.example", "10.0.0.0/33", "10.0.0", "1.2.3.4:80", "*"] {
            assert!(
                networks(&["127.0.0.1", text]).is_err_and(|error| error.contains(text)),
                "{text}"
            );
        }
    }
}
