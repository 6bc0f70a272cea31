//! Passwords: kept as Argon2id hashes, each with a salt of its own, and compared in constant time.
//!
//! Proving a password takes tens of milliseconds and 19 MiB, on purpose. So those that were right
//! are remembered as a fast hash, which never leaves the memory, as long as their user is there. It is
//! made of the slow hash too, and so counts for nothing when the user has another password.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{Output, ParamsString, PasswordHash, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use blake2::{Blake2s256, Digest as _};

use super::line::ProofSource;
use super::proving::{ProofBusy, Provers};

/// Bytes of the longest salt that a hash has.
const MOST_SALT: usize = 64;
/// Bytes of the salt of no hash.
const NO_SALT: usize = 16;

/// The hash of a password, with its salt; `None` where the system gives no randomness.
pub(super) fn hash(provers: &Provers, password: &str) -> Result<Option<String>, ProofBusy> {
    let (algorithm, version, params) = (Algorithm::Argon2id, Version::V0x13, Params::default());
    let argon2 = Argon2::new(algorithm, version, params.clone());
    let salt = SaltString::generate(&mut OsRng);
    // Whoever gives somebody a password was let in.
    let hashed = provers.run(ProofSource::default(), params.block_count(), |blocks| {
        let (mut room, mut out) = ([0; MOST_SALT], [0; Params::DEFAULT_OUTPUT_LEN]);
        let bytes = salt.decode_b64(&mut room).ok()?;
        argon2.hash_password_into_with_memory(password.as_bytes(), bytes, &mut out, blocks).ok()?;
        let hash = PasswordHash {
            algorithm: algorithm.ident(),
            version: Some(version.into()),
            params: ParamsString::try_from(&params).ok()?,
            salt: Some(salt.as_salt()),
            hash: Some(Output::new(&out).ok()?),
        };
        Some(hash.to_string())
    })?;
    Ok(hashed)
}

/// Whether a password has this hash; without a proof where it is `known` when its turn comes.
pub(super) fn verify(
    provers: &Provers,
    source: ProofSource,
    hash: &str,
    password: &str,
    known: impl FnOnce() -> bool,
) -> Result<bool, ProofBusy> {
    let Some((argon2, params, hash)) = parsed(hash) else { return Ok(false) };
    let (Some(salt), Some(expected)) = (hash.salt, hash.hash) else { return Ok(false) };
    let mut room = [0; MOST_SALT];
    let Ok(salt) = salt.decode_b64(&mut room) else { return Ok(false) };
    provers.run(source, params.block_count(), |blocks| {
        if known() {
            return true;
        }
        let mut found = vec![0; expected.len()];
        let made =
            argon2.hash_password_into_with_memory(password.as_bytes(), salt, &mut found, blocks);
        made.is_ok() && same(&found, expected.as_bytes())
    })
}

fn parsed(hash: &str) -> Option<(Argon2<'static>, Params, PasswordHash<'_>)> {
    let hash = PasswordHash::new(hash).ok()?;
    let algorithm = Algorithm::try_from(hash.algorithm).ok()?;
    let version = hash.version.map_or(Ok(Version::V0x13), Version::try_from).ok()?;
    let params = Params::try_from(&hash).ok()?;
    Some((Argon2::new(algorithm, version, params.clone()), params, hash))
}

/// Takes as long as a check does, unless the password is `known` when its turn comes; whether it is.
pub(super) fn check_nothing(
    provers: &Provers,
    source: ProofSource,
    password: &str,
    known: impl FnOnce() -> bool,
) -> Result<bool, ProofBusy> {
    let params = Params::default();
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone());
    provers.run(source, params.block_count(), |blocks| {
        let (salt, mut out) = ([0; NO_SALT], [0; Params::DEFAULT_OUTPUT_LEN]);
        let known = known();
        if !known {
            // What comes of it is nobody's.
            let _ =
                argon2.hash_password_into_with_memory(password.as_bytes(), &salt, &mut out, blocks);
            std::hint::black_box(&out);
        }
        known
    })
}

/// Whether bytes are the same, found in a time that tells nothing about where they differ.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && differ == 0
}

/// Passwords that were right lately.
#[derive(Default)]
pub(super) struct VerifiedPasswords(Mutex<HashMap<String, [u8; 32]>>);

impl VerifiedPasswords {
    /// Whether this password of the user with this hash was right before; quickly.
    pub(super) fn knows(&self, user: &str, hash: &str, password: &str) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(user).copied();
        drop(all);
        known.is_some_and(|known| same(&known, &digest(hash, password)))
    }

    /// The password of the user with this hash was right.
    pub(super) fn remember(&self, user: &str, hash: &str, password: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(user.to_owned(), digest(hash, password));
    }

    /// Forgets those of users that are no more. What is inserted behind that by a check that began before
    /// is of the hash that it was checked with, and matches no other one.
    pub(super) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|user, _| is_there(user));
    }
}

fn digest(hash: &str, password: &str) -> [u8; 32] {
    let mut digest = Blake2s256::new();
    digest.update(hash.as_bytes());
    digest.update([0]);
    digest.update(password.as_bytes());
    digest.finalize().into()
}
