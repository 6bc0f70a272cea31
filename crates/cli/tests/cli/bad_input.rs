//! What users get wrong, and what they are told.

use crate::data::{Place, SMALL, clustered, text, u8bin};

#[test]
fn broken_vector_files_name_the_file_and_what_was_expected() {
    let place = Place::new(200);
    let whole = std::fs::read(place.path("base.u8bin")).unwrap();
    place.write("cut.u8bin", &whole[..whole.len() - 1]);
    place.write("cut.i8bin", &whole[..whole.len() - 1]);
    place.write("empty.u8bin", &[]);
    place.write("none.u8bin", &u8bin(0, 24, &[]));
    place.write("nan.fbin", &u8bin(1, 1, &f32::NAN.to_le_bytes()));
    for (file, part) in [
        ("cut.u8bin", "truncated: its header announces 200 x 24 u8"),
        ("empty.u8bin", "header"),
        ("none.u8bin", "holds no vectors"),
        ("missing.u8bin", "cannot be opened"),
        ("base.csv", "known are .fbin, .f16bin, .bf16bin, .u8bin, .i8bin"),
        ("cut.i8bin", "truncated: its header announces 200 x 24 i8"),
    ] {
        let line = format!("build --base {file} --index index --metric l2 {SMALL}");
        let refused = place.refusal(&line);
        assert!(refused.contains(file) && refused.contains(part), "{refused}");
        assert!(!place.path("index").exists(), "{file}");
    }
    let refused = place.refusal("build --base nan.fbin --index index --metric l2");
    assert!(refused.contains("row 0"), "{refused}");
}

#[test]
fn wrong_calls_exit_with_two_and_say_what_is_known() {
    let place = Place::new(10);
    for (line, part) in [
        ("build --base base.u8bin --index i --metric l3", "l2, ip, cosine"),
        ("build --base base.u8bin --index i", "--metric"),
        ("search --index i --queries query.u8bin --memory-limit much", "512MiB"),
        ("search --index i --queries query.u8bin --switches speed=on", "packed=on|off"),
        ("search --index i --queries query.u8bin --in-flight 65", "64"),
        ("fly", "fly"),
    ] {
        let out = place.run(line);
        assert_eq!(out.status.code(), Some(2), "{line}");
        assert!(text(&out.stderr).contains(part), "{line}: {}", text(&out.stderr));
    }
}

#[test]
fn searches_that_cannot_be_answered_are_refused() {
    let place = Place::new(400);
    place.build();
    place.truth();
    place.write("narrow.u8bin", &u8bin(2, 5, &[0; 10]));
    place.json("convert --in query.u8bin --out query.fbin");
    place.write("few.u8bin", &u8bin(3, 24, &clustered(3, 2)));
    let search = "search --index index --buffered --list 20";
    for (rest, part) in [
        ("--queries narrow.u8bin", "5 dimensions"),
        ("--queries query.fbin", "f32"),
        ("--queries query.u8bin --truth base.u8bin", "no truth file"),
        ("--queries few.u8bin --truth truth.bin", "50 queries"),
        ("--queries query.u8bin --truth truth.bin --k 30 --list 30", "too few for recall@30"),
        ("--queries query.u8bin --k 30", "list is 20"),
        ("--queries query.u8bin --policy best", "known are auto, pipe, beam, page"),
        ("--queries query.u8bin --width 33", "--max-width 32"),
        ("--queries query.u8bin --memory-limit 1KiB", "set the limit to at least"),
    ] {
        let line = if rest.contains("--list") {
            format!("search --index index --buffered {rest}")
        } else {
            format!("{search} {rest}")
        };
        let refused = place.refusal(&line);
        assert!(refused.contains(part), "{line}: {refused}");
    }
    let refused = place.refusal("search --index nowhere --queries query.u8bin");
    assert!(refused.contains("nowhere holds no index"), "{refused}");
}

#[test]
fn small_sets_are_sets_too() {
    let place = Place::new(10);
    place.write("one.u8bin", &u8bin(1, 4, &[1, 2, 3, 4]));
    place.write("same.u8bin", &u8bin(300, 4, &[7; 1200]));
    for (name, rows) in [("one", 1), ("same", 300)] {
        place.json(&format!("build --base {name}.u8bin --index {name} --metric l2 --code-bytes 4"));
        place.json(&format!("inspect --index {name} --verify --buffered"));
        let line = format!(
            "search --index {name} --queries one.u8bin --list 20 --buffered --out {name}.ivecs"
        );
        place.json(&line);
        let ids = std::fs::read(place.path(&format!("{name}.ivecs"))).unwrap();
        let found = ids[4..].chunks_exact(4).filter(|c| *c != [255; 4]).count();
        assert_eq!(found, rows.min(10), "{name}");
    }
}

#[test]
fn what_only_developers_use_is_not_among_the_commands() {
    let place = Place::new(10);
    let help = text(&place.run("--help").stdout);
    assert!(help.contains("search") && help.contains("serve"), "{help}");
    for command in ["bench", "updates", "collections", "open-time", "crash"] {
        assert!(!help.contains(&format!("  {command}")), "{command}: {help}");
        assert_eq!(place.run(command).status.code(), Some(2), "{command}");
    }
}
