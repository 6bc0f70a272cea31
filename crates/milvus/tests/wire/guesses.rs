//! Those who guess passwords and tokens wait, and nobody else does.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pipeann_milvus::proto::milvus as wire;
use tonic::Code;

use crate::access::{asking_who, client, prepare};
use crate::served::{Served, assert_ok};

#[test]
fn old_passwords_are_no_way_around_the_wait() {
    let served = asking_who();
    let mut root = client(&served, "root:Milvus");
    prepare(&served, &mut root);
    let mut ada = client(&served, "ada:secret-1");
    let change = |old: &str| wire::UpdateCredentialRequest {
        username: "ada".to_owned(),
        old_password: BASE64_STANDARD.encode(old),
        new_password: BASE64_STANDARD.encode("secret-2"),
    };
    for guess in 0..6 {
        let status = served.call(ada.update_credential(change(&format!("guess-{guess}"))));
        assert_eq!(status.code, 1400, "{}", status.reason);
        assert!(status.reason.contains("old password not correct"), "{}", status.reason);
    }
    let status = served.call(ada.update_credential(change("secret-1")));
    assert_eq!(status.code, 1400, "{}", status.reason);
    assert!(status.reason.contains("too many wrong old passwords"), "{}", status.reason);
    assert_ok(&served.call(root.update_credential(change(""))));
}

#[test]
fn names_that_somebody_makes_up_are_proved_no_more_after_some() {
    let served = asking_who();
    for name in 0..30 {
        let mut stranger = client(&served, &format!("name{name}:guess"));
        let refused = served.runtime.block_on(stranger.get_version(wire::GetVersionRequest {}));
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
        assert!(refused.message().contains("please check username"), "{refused}");
    }
    assert_eq!(served.database.access().refused().wrong, 20);
    // Whoever is a user is proved all the same.
    let mut root = client(&served, "root:Milvus");
    served.call(root.get_version(wire::GetVersionRequest {}));
}

#[test]
fn tokens_are_not_guessed_and_an_old_one_makes_nobody_wait() {
    let asked = |served: &Served, token: &str| {
        let mut client = client(served, token);
        let answer = served.runtime.block_on(client.get_version(wire::GetVersionRequest {}));
        answer.map(drop).map_err(|status| status.message().to_owned())
    };
    let served = Served::guarded(Some("the token"));
    (0..20).for_each(|_| assert!(asked(&served, "an old token").is_err()));
    assert_eq!(asked(&served, "the token"), Ok(()));
    let guess_some = |served: &Served| {
        (0..6).for_each(|guess| assert!(asked(served, &format!("guess {guess}")).is_err()));
    };
    guess_some(&served);
    assert_eq!(asked(&served, "the token"), Ok(()), "it was shown from here");
    let served = Served::guarded(Some("the token"));
    guess_some(&served);
    let why = asked(&served, "the token").unwrap_err();
    assert!(why.contains("too many wrong tokens"), "{why}");
}
