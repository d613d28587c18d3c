//! Name resolution that returns only addresses a webhook may connect to.
//!
//! The client connects to exactly the addresses that the resolver returns. A name that resolves differently
//! the second time (DNS rebinding) gains nothing, since every lookup is checked. A name with several
//! addresses is forbidden if one of them is.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::is_allowed;

/// Function that resolves a name.
pub(super) type HostLookup =
    Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>> + Send + Sync>;

/// Resolves names and refuses those with an address that webhooks may not use.
#[derive(Clone)]
pub(in crate::integrations) struct Resolver {
    look_up: HostLookup,
    local: bool,
}

/// The name has a forbidden address or none at all.
#[derive(Debug, thiserror::Error)]
#[error("the host does not resolve to an allowed address")]
pub(in crate::integrations) struct UnreachableHost;

impl Resolver {
    /// Creates a resolver that uses the system.
    pub fn system(local: bool) -> Self {
        let look_up: HostLookup = Arc::new(|name| {
            Box::pin(async move {
                let found = tokio::net::lookup_host((name, 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        });
        Self::with(look_up, local)
    }

    /// Creates a resolver that uses the given function.
    pub fn with(look_up: HostLookup, local: bool) -> Self {
        Self { look_up, local }
    }

    async fn addresses(&self, name: String) -> Result<Vec<IpAddr>, UnreachableHost> {
        let found = (self.look_up)(name).await.map_err(|_| UnreachableHost)?;
        let allowed = found.iter().all(|address| is_allowed(*address, self.local));
        if found.is_empty() || !allowed {
            return Err(UnreachableHost);
        }
        Ok(found)
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        let name = name.as_str().to_owned();
        Box::pin(async move {
            let found = resolver.addresses(name).await?;
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn answering(rounds: &'static [&'static [&'static str]], local: bool) -> Resolver {
        let lookups = Arc::new(AtomicUsize::new(0));
        let look_up: HostLookup = Arc::new(move |_| {
            let round = lookups.fetch_add(1, Ordering::Relaxed).min(rounds.len() - 1);
            let found = rounds[round].iter().map(|text| text.parse().expect("an address"));
            let found: Vec<IpAddr> = found.collect();
            Box::pin(async move { Ok(found) })
        });
        Resolver::with(look_up, local)
    }

    #[tokio::test]
    async fn rebound_host_name_is_rejected_on_next_lookup() {
        let resolver = answering(&[&["93.184.215.14"], &["127.0.0.1"]], false);
        assert!(
            resolver
                .addresses("rebinding.example.com".to_owned())
                .await
                .is_ok()
        );
        assert!(
            resolver
                .addresses("rebinding.example.com".to_owned())
                .await
                .is_err()
        );
    }

    #[tokio::test]
    async fn host_name_with_any_forbidden_address_is_rejected() {
        for round in [
            &[&["93.184.215.14", "10.0.0.1"][..]][..],
            &[&["2606:4700::1111", "::ffff:169.254.169.254"]],
            &[&[]],
        ] {
            let resolver = answering(Box::leak(round.to_vec().into_boxed_slice()), false);
            assert!(resolver.addresses("mixed.example.com".to_owned()).await.is_err());
        }
    }

    #[tokio::test]
    async fn host_name_of_metadata_service_is_rejected_even_if_local_addresses_are_allowed() {
        for round in [
            &[&["168.63.129.16"][..]][..],
            &[&["10.0.0.1", "169.254.169.254"]],
            &[&["fd00:ec2::254"]],
        ] {
            let resolver = answering(Box::leak(round.to_vec().into_boxed_slice()), true);
            assert!(
                resolver
                    .addresses("metadata.example.com".to_owned())
                    .await
                    .is_err()
            );
        }
        let local = answering(&[&["10.0.0.1"]], true);
        assert!(local.addresses("ci.example.com".to_owned()).await.is_ok());
    }
}
