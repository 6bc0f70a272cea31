//! What a server asks of those who call it: what keeps one that lets everybody in from standing beside
//! others that do not. Each of them answers with all rows.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::{Error, ServerInfo};

/// The most words of a server.
const GUARDS_MAX: usize = 16;

/// What a server asks of those who call it, each as the word by which people ask for it. Which words there
/// are is not known here: one that only a later version has differs like any other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallerGuards(BTreeSet<String>);

impl<'w> FromIterator<&'w str> for CallerGuards {
    fn from_iter<T: IntoIterator<Item = &'w str>>(words: T) -> Self {
        Self(words.into_iter().map(str::to_owned).collect())
    }
}

impl CallerGuards {
    /// Refuses what no server tells; `text` is the check of one word.
    pub(crate) fn check(
        &self,
        text: impl Fn(&'static str, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let what = "what the server asks of callers";
        if self.0.len() > GUARDS_MAX {
            let why = format!("{} words are given, {GUARDS_MAX} are the most", self.0.len());
            return Err(Error::Invalid { what, why });
        }
        self.0.iter().try_for_each(|word| text(what, word))
    }

    /// What these have and others lack, as a list for people.
    fn beyond(&self, others: &Self) -> Option<String> {
        let words: Vec<&str> = self.0.difference(&others.0).map(String::as_str).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

impl ServerInfo {
    /// Refuses to stand beside a server that asks something else of those who call. One of before, which
    /// does not tell what it asks, is let be.
    pub(crate) fn check_guards_beside(&self, other: &Self) -> Result<(), Error> {
        let (Some(mine), Some(theirs)) = (&self.guards, &other.guards) else { return Ok(()) };
        let mut why = String::new();
        if let Some(words) = theirs.beyond(mine) {
            why = format!("it has {words}, which this one lacks");
        }
        if let Some(words) = mine.beyond(theirs) {
            let and = if why.is_empty() { "" } else { "; " };
            // Writing to a text does not fail.
            let _ = write!(why, "{and}this one has {words}, which it lacks");
        }
        if why.is_empty() {
            return Ok(());
        }
        Err(Error::OtherGuards { server: other.name.clone(), address: other.address.clone(), why })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{ServerKey, SharedFormats};

    fn server(guards: Option<&[&str]>) -> ServerInfo {
        ServerInfo {
            id: Uuid::from_u128(1),
            name: "one".into(),
            address: "10.0.0.1:19530".into(),
            peer_address: "10.0.0.1:19530".into(),
            version: "0.1.0".into(),
            formats: SharedFormats::FIRST,
            regions: Vec::new(),
            key: ServerKey::default(),
            guards: guards.map(|words| words.iter().copied().collect()),
            started_ms: 5,
        }
    }

    #[test]
    fn servers_stand_side_by_side_that_ask_the_same() {
        let [open, asking, safe] = [&[][..], &["--authorization"], &["--tls-cert", "--token"]]
            .map(|words| server(Some(words)));
        for (it, other) in [(&open, &open), (&asking, &asking), (&safe, &safe)] {
            it.check_beside(other).unwrap();
        }
        let refused = |it: &ServerInfo, beside: &ServerInfo| {
            let refused = it.check_beside(beside).unwrap_err();
            assert!(matches!(refused, Error::OtherGuards { .. }) && !refused.is_passing());
            refused.to_string()
        };
        assert_eq!(
            refused(&open, &asking),
            "the server one at 10.0.0.1:19530 is there: it has --authorization, which this one lacks. \
             Servers of one cluster ask the same of those who call: start this one as the others, or end \
             all of them before that is changed"
        );
        let said = refused(&asking, &open);
        assert!(said.contains("is there: this one has --authorization, which it lacks."), "{said}");
        let said = refused(&asking, &safe);
        let both = "it has --tls-cert, --token, which this one lacks; this one has --authorization, which \
                    it lacks";
        assert!(said.contains(both), "{said}");
    }

    #[test]
    fn a_server_of_before_does_not_tell_and_goes_on_joining() {
        let (before, asking) = (server(None), server(Some(&["--authorization"])));
        before.check_beside(&asking).unwrap();
        asking.check_beside(&before).unwrap();
    }

    #[test]
    fn words_are_few_and_can_be_printed() {
        let refused = |words: &[&str]| server(Some(words)).check().unwrap_err().to_string();
        assert!(refused(&["a\nb"]).starts_with("what the server asks of callers"));
        let many: Vec<String> = (0..17).map(|word| word.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(refused(&many).contains("16 are the most"));
        server(Some(&["--authorization"])).check().unwrap();
    }
}
