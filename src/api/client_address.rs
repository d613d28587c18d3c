//! Client address of a request, also behind proxies.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use poem::Request;
use poem::http::HeaderMap;

use crate::config::Networks;

/// Header to which each proxy appends the address of its client.
const FORWARDED: &str = "x-forwarded-for";

/// Proxies whose `X-Forwarded-For` header is trusted; attached to every request.
#[derive(Debug, Clone)]
pub struct TrustedProxies(pub Networks);

/// Returns the key for counting a caller's failures: the IPv4 address, or the IPv6 network of one customer.
/// The header is used only if the connection comes from a trusted proxy.
pub fn address_key(request: &Request) -> Option<String> {
    Some(match network(request)? {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(network) => {
            let [a, b, c, d, ..] = network.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    })
}

/// Returns the client's address, as audit events and the access log contain it. An IPv4 address in IPv6 form is returned
/// as IPv4.
pub fn client_ip(request: &Request) -> Option<IpAddr> {
    let peer = request.remote_addr().as_socket_addr()?.ip();
    let address = match request.data::<TrustedProxies>() {
        Some(TrustedProxies(proxies)) => client_address(peer, request.headers(), proxies),
        None => peer,
    };
    Some(address.to_canonical())
}

/// Returns the client's IPv4 address, or the first address of the IPv6 network of one customer.
pub fn network(request: &Request) -> Option<IpAddr> {
    Some(match client_ip(request)? {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    })
}

/// Returns the nearest address that is not a trusted proxy. Each trusted proxy vouches for the last address
/// it appended; addresses before an untrusted one may be forged. If a proxy appends no valid address, its own
/// address is returned.
fn client_address(peer: IpAddr, headers: &HeaderMap, proxies: &Networks) -> IpAddr {
    let mut nearest = peer;
    let lines = headers.get_all(FORWARDED).iter().rev();
    let named = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    for named in named {
        if !proxies.contain(nearest) {
            break;
        }
        match std::str::from_utf8(named).ok().and_then(address) {
            Some(address) => nearest = address,
            None => break,
        }
    }
    nearest
}

/// Parses an address with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let alone = bare.unwrap_or(text).parse::<IpAddr>().ok();
    alone.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use poem::http::HeaderValue;

    fn found(peer: &str, lines: &[&str], trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED, HeaderValue::from_str(line).expect("a header"));
        }
        let trusted: Vec<String> = trusted.iter().map(|text| (*text).to_owned()).collect();
        let proxies = Networks::parse(&trusted).expect("networks");
        client_address(peer.parse().expect("an address"), &headers, &proxies).to_string()
    }

    #[test]
    fn forwarded_address_requires_trusted_proxy() {
        let lines = ["203.0.113.9"];
        assert_eq!(found("127.0.0.1", &lines, &[]), "127.0.0.1");
        assert_eq!(found("192.0.2.1", &lines, &["127.0.0.1"]), "192.0.2.1");
        assert_eq!(found("127.0.0.1", &lines, &["127.0.0.0/8"]), "203.0.113.9");
        assert_eq!(found("::ffff:127.0.0.1", &lines, &["127.0.0.0/8"]), "203.0.113.9");
        assert_eq!(found("127.0.0.1", &[], &["127.0.0.0/8"]), "127.0.0.1");
    }

    #[test]
    fn client_address_ignores_forged_forwarded_entries() {
        let trusted = ["127.0.0.1", "10.0.0.0/8"];
        let cases: [(&[&str], &str); 9] = [
            (&["1.2.3.4, 203.0.113.9"], "203.0.113.9"),
            (&["1.2.3.4,203.0.113.9, 10.1.1.1"], "203.0.113.9"),
            (&["1.2.3.4", "203.0.113.9", "10.1.1.1"], "203.0.113.9"),
            (&["10.1.1.1, 203.0.113.9"], "203.0.113.9"),
            (&["10.3.3.3, 10.2.2.2"], "10.3.3.3"),
            (&["1.2.3.4, unknown"], "127.0.0.1"),
            (&["1.2.3.4, unknown, 10.1.1.1"], "10.1.1.1"),
            (&["1.2.3.4,"], "127.0.0.1"),
            (&["[2001:db8::1]:4711, 10.1.1.1:80"], "2001:db8::1"),
        ];
        for (lines, expected) in cases {
            assert_eq!(found("127.0.0.1", lines, &trusted), expected, "{lines:?}");
        }
    }
}
