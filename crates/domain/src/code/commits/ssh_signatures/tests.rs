//! Signatures that `ssh-keygen -Y sign -n git` created for [`CONTENT`].

use ring::digest;
use ring::signature::{Ed25519KeyPair, KeyPair};
use ssh_key::public::{Ed25519PublicKey, KeyData, SkEd25519};
use ssh_key::{Algorithm, HashAlg, LineEnding, Signature, SshSig};

use super::{CheckedSignature, check};

const CONTENT: &[u8] = b"content\n";

const ED25519: &str = "\
-----BEGIN SSH SIGNATURE-----\n\
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgBtFs1vjOo7vpn9zJDL2MTxmtvF\n\
6CE34u3b+w+vNnyacAAAADZ2l0AAAAAAAAAAZzaGE1MTIAAABTAAAAC3NzaC1lZDI1NTE5\n\
AAAAQPtnb1yoBuHwkTdb8paxnDpS2tYoh0Dctozms+fkqERujebfyGc5e6OfdweLR+Ylu/\n\
rVEmMePDwPRTyDXzrjAgE=\n\
-----END SSH SIGNATURE-----\n";

const RSA2048: &str = "\
-----BEGIN SSH SIGNATURE-----\n\
U1NIU0lHAAAAAQAAARcAAAAHc3NoLXJzYQAAAAMBAAEAAAEBALetnTEdDwKjphgazEcdLa\n\
u/8dJv2r5q16A4xsIB83sHpu2nC70Jq4OSTEIxV6QPrPmE8Q1uh7X3tr5Vb7hYiDoQngJd\n\
kf5Ij2mMcgUIW+6zuw1lmcyFchsGtSv0+hyqyTfNSXkUjoDm/JXb5sq/qEOb4rENzYIsrZ\n\
yxZn6KCfpe9KlU6Ea1OlyA+Z2Oy2e1eqP18Wq9OMvx0Y52YN+zS4eDY+VOxydnW7SbL2uW\n\
nuoVnn4dsxEz3g+QIJ4JMsKvAtFw55vFjw87ZwvWCORMZXB5uA6jYAtd4S+NNSinWGUmYt\n\
RoRpz9fpY3AVjPjfUqRbIISUF6bBtjiN3gO7iHFIEAAAADZ2l0AAAAAAAAAAZzaGE1MTIA\n\
AAEUAAAADHJzYS1zaGEyLTUxMgAAAQCVpeRf15NBD1eiSm/tAda14svBvvRvnGQIwlHO6H\n\
ilQuIc3xge8PoqaMlD62hc66t9OJYz6Nm2BdIvz0ihz8QFKPDoQpCjn4xk8fVWpuKYoeT6\n\
JTyFCAAllUtmY+jNTZPEJQWzh+E6DhsSGtXe+RBxeUyk+3m71LnyJJ71TmYNN+pyx/kopa\n\
huREhA4a0qTfTz1kbcsMYBV5gfw7wxOieOnrWgs7NfQcsK6votZ7TZNah90JOlda47C/5i\n\
YWGJrkYnx4kp+Ff6/ykG5yDuqnvV0YuZvT9SLsOgZj7qpHvL+jINtFLsWOopziu70Si19/\n\
YWHUHt1gPNxSA2tOlDI8es\n\
-----END SSH SIGNATURE-----\n";

const ECDSA256: &str = "\
-----BEGIN SSH SIGNATURE-----\n\
U1NIU0lHAAAAAQAAAGgAAAATZWNkc2Etc2hhMi1uaXN0cDI1NgAAAAhuaXN0cDI1NgAAAE\n\
EEEyTjVzTY4jqb5BsJxF2WUSja28RjwbzpqMoNep/DoHYBtUa21L8k79gFbI5irNveOXmm\n\
zcQl0aJiyzczaWHwtAAAAANnaXQAAAAAAAAABnNoYTUxMgAAAGQAAAATZWNkc2Etc2hhMi\n\
1uaXN0cDI1NgAAAEkAAAAhAIQFOp0vgt97K2Jv6ymCYwiGolZ7hgM0QDch5iKqAwGQAAAA\n\
IC1ncv08T16yPf74kLV81kkI7XPWg5FHQVP40zUnIEVN\n\
-----END SSH SIGNATURE-----\n";

const ECDSA384: &str = "\
-----BEGIN SSH SIGNATURE-----\n\
U1NIU0lHAAAAAQAAAIgAAAATZWNkc2Etc2hhMi1uaXN0cDM4NAAAAAhuaXN0cDM4NAAAAG\n\
EETsdpyCUCdzMC3vxdxw/gFP/sRzGet7Rka0Ezzf4/glnj67z+orXliSDpeRLX1GriYRSW\n\
Ofkddf3qhdG/IYsshysBj3F31SQlsLYMCeDe7gInjSJkbljTrCh5SrwScCSxAAAAA2dpdA\n\
AAAAAAAAAGc2hhNTEyAAAAhAAAABNlY2RzYS1zaGEyLW5pc3RwMzg0AAAAaQAAADEA2pwa\n\
OWA50CDua13PSfHLgIVTaohk7c/KIoFO0+rYOFWNpd7qWAZGs50ZDEd5pKh+AAAAMBPHXb\n\
T9FaNc7Zs43pcTPzKKzZ8oQOLNllfh9RJl06zMMNuiGRedMxtXpsRk+8oBsg==\n\
-----END SSH SIGNATURE-----\n";

const ECDSA521: &str = "\
-----BEGIN SSH SIGNATURE-----\n\
U1NIU0lHAAAAAQAAAKwAAAATZWNkc2Etc2hhMi1uaXN0cDUyMQAAAAhuaXN0cDUyMQAAAI\n\
UEAMYyTbnWXtp4qklQU6Q9xdbdhobzQEKnPaajtTcaE2yxle26LJr+w0G7/BwQTaMNHNvP\n\
THU8BYDDr3g1bdXKMnKxACqkDucpz3JkwNiwLBEefqLfEYhgVJ91gnig04H1fHUsFF3Vlv\n\
XeUsrQ99X1NjSkc9EhHpkOyi/T5lrvTJpxWqwsAAAAA2dpdAAAAAAAAAAGc2hhNTEyAAAA\n\
pgAAABNlY2RzYS1zaGEyLW5pc3RwNTIxAAAAiwAAAEIBzVOhG496fARInpXyspPP2QGD4I\n\
vEaWXk2ZcSGIo24OwQY5k4dPJrSG4FNnd/hixQTVOoSIQff8lCKpotl5VLNYwAAABBALNZ\n\
ikVJ6wRuNCu7KXIvGOm3XNe+xObqaJhXRBnY/5Yoqlkd8MFeYERFLrfmqlGKgVqeg5/Qe1\n\
XKW8R+jaICfp4=\n\
-----END SSH SIGNATURE-----\n";

/// A signature of the same content for the namespace `file`.
const OTHER_NAMESPACE: &str = "\
-----BEGIN SSH SIGNATURE-----\n\
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgBtFs1vjOo7vpn9zJDL2MTxmtvF\n\
6CE34u3b+w+vNnyacAAAAEZmlsZQAAAAAAAAAGc2hhNTEyAAAAUwAAAAtzc2gtZWQyNTUx\n\
OQAAAECjz7J9Rbtj9anv8CJ6v0Ka3i9f8ZyMKT8klROAygJRcTiW6jZtNcDRPizaFTrDul\n\
9y7SciCc8h/KYFvXHSMKAF\n\
-----END SSH SIGNATURE-----\n";

fn is_valid(text: &str, content: &[u8]) -> Option<bool> {
    check(text, "git", content).map(|checked| checked.is_valid)
}

#[test]
fn signatures_of_openssh_are_valid() {
    for (text, fingerprint) in [
        (ED25519, "SHA256:URLG25MyZwZWmMD6mWVEY1xPDp2ll34tN5vUjtcouMw"),
        (RSA2048, "SHA256:3ZU77vRt8ul1MCeXcK0PFhiI+6hm2thjwGDrGfyHbPk"),
        (ECDSA256, "SHA256:PT2QsHnjswFsyPQlshl0A42IDp3pkPVpTgwvMnSfYOA"),
        (ECDSA384, "SHA256:maih2MgUa24UEgLN08s7srM26mj8Gku8WYH1LdalQuA"),
    ] {
        let checked = CheckedSignature {
            fingerprint: fingerprint.to_owned(),
            is_valid: true,
        };
        assert_eq!(check(text, "git", CONTENT), Some(checked));
        assert_eq!(is_valid(text, b"other content\n"), Some(false), "{fingerprint}");
        assert_eq!(
            is_valid(&text.replace('\n', "\r\n"), CONTENT),
            Some(true),
            "line breaks"
        );
        assert_eq!(
            is_valid(&text.replace('\n', " "), CONTENT),
            Some(true),
            "one line"
        );
    }
}

#[test]
fn unsupported_curve_is_not_valid() {
    let checked = CheckedSignature {
        fingerprint: "SHA256:clcvRr0eiGuuSGokeB80r1qH98TpeLjLJAvY906YQY0".to_owned(),
        is_valid: false,
    };
    assert_eq!(check(ECDSA521, "git", CONTENT), Some(checked));
}

#[test]
fn signature_for_another_namespace_is_refused() {
    assert_eq!(is_valid(OTHER_NAMESPACE, CONTENT), None);
    assert!(check(OTHER_NAMESPACE, "file", CONTENT).is_some_and(|checked| checked.is_valid));
}

/// Signs like a security key: the key signs hashes of the application and of the content, and the trailer.
#[test]
fn signature_of_a_security_key_is_valid() {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a key");
    let public = Ed25519PublicKey::try_from(pair.public_key().as_ref()).expect("a public key");
    let key = KeyData::SkEd25519(SkEd25519::new(public, "ssh:"));
    let signed = SshSig::signed_data("git", HashAlg::Sha512, CONTENT).expect("bytes");
    let sha256 = |bytes: &[u8]| digest::digest(&digest::SHA256, bytes).as_ref().to_vec();
    let trailer = [1, 0, 0, 0, 9];
    let whole = [sha256(b"ssh:"), trailer.to_vec(), sha256(&signed)].concat();
    let bytes = [pair.sign(&whole).as_ref(), &trailer].concat();
    let signature = Signature::new(Algorithm::SkEd25519, bytes).expect("a signature");
    let text = SshSig::new(key, "git", HashAlg::Sha512, signature).expect("a signature");
    let text = text.to_pem(LineEnding::LF).expect("a text");
    assert_eq!(is_valid(&text, CONTENT), Some(true));
    assert_eq!(is_valid(&text, b"other"), Some(false));
}

/// Signatures with a changed, added or removed character. The result must never be valid.
#[test]
fn changed_signatures_are_never_valid() {
    for text in [ED25519, RSA2048, ECDSA256, ECDSA384, ECDSA521] {
        let lines: Vec<&str> = text.lines().collect();
        let base64: String = lines[1..lines.len() - 1].concat();
        for at in 0..base64.len() {
            for changed in [
                format!(
                    "{}{}{}",
                    &base64[..at],
                    if base64[at..].starts_with('A') { 'B' } else { 'A' },
                    &base64[at + 1..]
                ),
                format!("{}{}", &base64[..at], &base64[at + 1..]),
                base64[..at].to_owned(),
            ] {
                let changed = format!("{}\n{changed}\n{}\n", lines[0], lines[lines.len() - 1]);
                assert_ne!(is_valid(&changed, CONTENT), Some(true), "{changed}");
            }
        }
    }
    for text in [
        "",
        "x",
        super::BEGIN,
        "-----BEGIN SSH SIGNATURE----------END SSH SIGNATURE-----",
    ] {
        assert_eq!(is_valid(text, CONTENT), None, "{text}");
    }
}
