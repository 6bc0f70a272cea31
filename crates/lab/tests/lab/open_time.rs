//! Opening, until the first answer.

use crate::data::Place;

#[test]
fn opening_is_measured() {
    let place = Place::new(600);
    place.build();
    let line = "open-time --index index --queries query.u8bin --list 32 --cold --buffered";
    let open = place.json(line).remove(0);
    assert!(open["first_answer_us"].as_f64() >= open["open_us"].as_f64(), "{open}");
    assert_eq!(open["ids"].as_array().unwrap().len(), 10);
}
