//! What a topology says, and what is refused by name.

use super::*;

fn file(servers: &[(u32, u16, &str)]) -> String {
    let mut text = String::from("cluster = \"blue\"\npartitions = 4\n");
    for (number, port, partitions) in servers {
        text += &format!("[[server]]\nnumber = {number}\naddress = \"127.0.0.1:{port}\"\n");
        if !partitions.is_empty() {
            text += &format!("partitions = {partitions}\n");
        }
    }
    text
}

fn refused(text: &str) -> String {
    Placement::parse(text).expect_err("refused").to_string()
}

#[test]
fn a_server_owns_any_number_of_partitions() {
    let placement =
        Placement::parse(&file(&[(7, 1, "[3, 0, 1]"), (2, 2, "[2]"), (9, 3, "[]")])).unwrap();
    let owners: Vec<_> = (0..5).map(|partition| placement.owner(partition)).collect();
    assert_eq!(owners, [Some(7), Some(7), Some(2), Some(7), None]);
    assert_eq!(placement.server(7).unwrap().partitions, [0, 1, 3]);
    assert_eq!(placement.server(7).unwrap().tls_name, "server-7");
    assert_eq!((placement.cluster(), placement.partitions()), ("blue", 4));
    assert_eq!(placement.server(3), Err(PlacementError::UnknownServer(3)));
}

#[test]
fn where_no_server_names_any_each_gets_its_share() {
    let placement = Placement::parse(&file(&[(0, 1, ""), (1, 2, ""), (2, 3, "")])).unwrap();
    let owned: Vec<_> = placement.servers().iter().map(|server| &server.partitions[..]).collect();
    assert_eq!(owned, [&[0][..], &[1], &[2, 3]]);
}

#[test]
fn what_no_cluster_can_be_is_refused_by_name() {
    let twice = refused(&file(&[(0, 1, "[0, 1, 2]"), (1, 2, "[2, 3]")]));
    assert_eq!(twice, "partition 2 is named twice: by server 0 and by server 1");
    let missing = refused(&file(&[(0, 1, "[0, 1]"), (1, 2, "[3]")]));
    assert_eq!(missing, "partition 2 is owned by no server");
    assert!(refused(&file(&[(0, 1, "[0, 1, 2, 3, 4]")])).contains("partition 4"));
    assert!(refused(&file(&[(0, 1, "[0, 1]"), (0, 2, "[2, 3]")])).contains("server 0 is named"));
    assert!(refused(&file(&[(0, 1, "[0, 1]"), (1, 1, "[2, 3]")])).contains("same address"));
    assert!(refused(&file(&[])).contains("number of servers"));
    assert!(refused("cluster = \"\"\npartitions = 0\n").contains("number of partitions"));
    assert!(refused(&file(&[(0, 1, "")]).replace("blue", "")).contains("name has 0 bytes"));
    assert!(refused(&format!("{}extra = 1\n", file(&[(0, 1, "")]))).contains("extra"));
    let many = file(&[(0, 1, "")]).replace("partitions = 4", "partitions = 4000000000");
    assert!(refused(&many).contains("65536"));
}
