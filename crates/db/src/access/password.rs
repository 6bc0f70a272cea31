//! Passwords: kept as Argon2id hashes, each with a salt of its own, and compared in constant time.
//!
//! Proving a password takes tens of milliseconds and 19 MiB, on purpose. So those that were right
//! are remembered as a fast hash, which never leaves the memory, until something changes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use argon2::Argon2;
use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString};
use blake2::{Blake2s256, Digest as _};

/// The hash of a password, with its salt.
pub(super) fn hash(password: &str) -> Option<String> {
    let salt = SaltString::generate(&mut OsRng);
    Some(Argon2::default().hash_password(password.as_bytes(), &salt).ok()?.to_string())
}

/// Whether a password has this hash.
pub(super) fn verify(hash: &str, password: &str) -> bool {
    let parsed = PasswordHash::new(hash);
    parsed.is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

/// Takes as long as a check does.
pub(super) fn check_nothing(password: &str) {
    hash(password);
}

/// Whether bytes are the same, found in a time that tells nothing about where they differ.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    let differ = a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && differ == 0
}

/// Passwords that were right lately.
#[derive(Default)]
pub(super) struct Verified(Mutex<HashMap<String, [u8; 32]>>);

impl Verified {
    /// Whether the user with this hash has this password.
    pub(super) fn check(&self, user: &str, hash: &str, password: &str) -> bool {
        let mut digest = Blake2s256::new();
        digest.update(hash.as_bytes());
        digest.update([0]);
        digest.update(password.as_bytes());
        let digest: [u8; 32] = digest.finalize().into();
        let known = |all: &HashMap<String, [u8; 32]>| all.get(user).copied();
        if known(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
            .is_some_and(|known| same(&known, &digest))
        {
            return true;
        }
        let is_right = verify(hash, password);
        if is_right {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(user.to_owned(), digest);
        }
        is_right
    }

    /// Forgets them all. What is inserted behind that by a check that began before is of the hash
    /// that it was checked with, and matches no other one.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
