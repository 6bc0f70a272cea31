//! How the graphs of servers that follow grow: by the links that the leader has made.
//!
//! To link a row its neighbours are searched for, which costs more than all else that is done with
//! it. The leader does that; a server that follows asks it, some times a second, how the rows were
//! linked that wait there, and takes over the edges. Rows of which the leader knows nothing are linked
//! where they wait, and so are all while nobody answers.
//!
//! Who is near whom is nobody's business but the servers': whoever asks shows the key that the server
//! which is asked has told etcd.

use std::sync::{Arc, Weak};
use std::time::Duration;

use pipeann_db::catalog::CollectionId;
use pipeann_db::collection::Collection;
use pipeann_db::field_index::LinkOf;
use pipeann_db::ids::RowId;
use pipeann_db::schema::FieldId;
use pipeann_engine::update::RowLink;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Response, Status};

use super::connections::{BusyConnection, Connections};
use super::edge::Edge;
use super::frontend::FrontendContext;
use super::marks::KEY;
use super::peers::{PeerKey, Peers, ServerAt};
use crate::proto::servers as wire;
use crate::proto::servers::graphs_client::GraphsClient;
use crate::proto::servers::graphs_server::{Graphs, GraphsServer};

/// The most rows of a question.
const MOST_ROWS: usize = 512;
/// The longest question, bytes.
const MOST_BYTES: usize = 16 << 10;
/// How long the leader may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// How often it is asked while rows wait, and looked whether some do.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(50);
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// How long it is left alone when it has not answered; rows are linked here then.
const AFTER_FAILURE: Duration = Duration::from_secs(3);

/// Answers the other servers.
#[derive(Debug)]
pub(super) struct GraphsDoor {
    door: Weak<FrontendContext>,
    peers: Arc<dyn Peers>,
    /// Where connections are counted, the count.
    connections: Option<Arc<Connections>>,
}

impl GraphsDoor {
    pub(super) fn service(
        door: &Arc<FrontendContext>,
        peers: Arc<dyn Peers>,
        connections: Option<Arc<Connections>>,
    ) -> GraphsServer<Self> {
        let it = Self { door: Arc::downgrade(door), peers, connections };
        GraphsServer::new(it).max_decoding_message_size(MOST_BYTES)
    }
}

#[tonic::async_trait]
impl Graphs for GraphsDoor {
    async fn links(
        &self,
        request: Request<wire::LinksRequest>,
    ) -> Result<Response<wire::LinksResponse>, Status> {
        let shown = request.metadata().get(KEY).map(MetadataValue::as_encoded_bytes);
        let own = self.peers.key();
        if !shown.zip(own).is_some_and(|(shown, own)| own.is(shown)) {
            return Err(Status::permission_denied("this is for the servers of the cluster"));
        }
        // Whoever asks this is nobody who is idle, though no call of a client comes the same way.
        let remote = request.remote_addr();
        let busy = remote.zip(self.connections.as_ref()).and_then(|(from, all)| all.peer(from));
        busy.iter().for_each(BusyConnection::calls);
        let wire::LinksRequest { collection, field, rows } = request.into_inner();
        if rows.len() > MOST_ROWS {
            let asked = rows.len();
            let why = format!("{asked} rows are asked for, {MOST_ROWS} are the most");
            return Err(Status::invalid_argument(why));
        }
        let door = self.door.upgrade().ok_or_else(|| Status::unavailable("it ends"))?;
        let rows: Vec<RowId> = rows.into_iter().map(RowId).collect();
        let collection = door.settings.database.collection_by_id(CollectionId(collection));
        let links = match collection {
            Some(collection) => collection.links_of(FieldId(field), &rows),
            None => vec![LinkOf::Unknown; rows.len()],
        };
        let links = links.into_iter().map(to_wire).collect();
        Ok(Response::new(wire::LinksResponse { links }))
    }
}

fn to_wire(link: LinkOf) -> wire::RowLink {
    let state =
        |state: wire::LinkState| wire::RowLink { state: state.into(), ..Default::default() };
    match link {
        LinkOf::Unknown => state(wire::LinkState::Unknown),
        LinkOf::Waits => state(wire::LinkState::Waits),
        LinkOf::Made { order, link } => {
            let place = |of: &RowId| link.neighbours.iter().position(|row| row == of);
            let places = link.back_edges.iter().filter_map(place).map(|place| place as u32);
            wire::RowLink {
                order,
                back_edges: places.collect(),
                neighbours: link.neighbours.iter().map(|row| row.0).collect(),
                ..state(wire::LinkState::Made)
            }
        }
    }
}

fn from_wire(row: RowId, told: wire::RowLink) -> LinkOf {
    match told.state() {
        wire::LinkState::Unknown => LinkOf::Unknown,
        wire::LinkState::Waits => LinkOf::Waits,
        wire::LinkState::Made => {
            let neighbours: Vec<RowId> = told.neighbours.into_iter().map(RowId).collect();
            let named = |place: &u32| neighbours.get(*place as usize).copied();
            let back_edges = told.back_edges.iter().filter_map(named).collect();
            let link = RowLink { row, neighbours, back_edges };
            LinkOf::Made { order: told.order, link }
        }
    }
}

/// What came of asking the leader about all collections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// No row waits, or there is nobody to ask.
    Nothing,
    Some,
    /// It has not answered.
    Failed,
}

/// Asks the leader how rows were linked that wait here, as long as the door is there.
pub(super) async fn follow_links(edge: Weak<Edge>, door: Weak<FrontendContext>) {
    let mut pause = BETWEEN_LOOKS;
    loop {
        tokio::time::sleep(pause).await;
        let (Some(edge), Some(door)) = (edge.upgrade(), door.upgrade()) else { return };
        let collections = door.settings.database.all_collections();
        let leading = edge.peers.leading_peer();
        collections.iter().for_each(|collection| collection.expect_links(leading.is_some()));
        let asked = match &leading {
            Some((leader, key)) => ask_for_all(&edge, leader, key, &collections).await,
            None => Asked::Nothing,
        };
        pause = match asked {
            Asked::Nothing => BETWEEN_LOOKS,
            Asked::Some => BETWEEN_QUESTIONS,
            Asked::Failed => {
                collections.iter().for_each(|collection| collection.expect_links(false));
                AFTER_FAILURE
            }
        };
    }
}

async fn ask_for_all(
    edge: &Edge,
    leader: &ServerAt,
    key: &PeerKey,
    collections: &[Arc<Collection>],
) -> Asked {
    let mut asked = Asked::Nothing;
    for collection in collections {
        for (field, rows) in collection.links_wanted() {
            asked = Asked::Some;
            let id = collection.entry().map(|entry| entry.id);
            let Ok(id) = id else { continue };
            let request = wire::LinksRequest {
                collection: id.0,
                field: field.0,
                rows: rows.iter().map(|row| row.0).collect(),
            };
            let answer = tokio::time::timeout(ANSWER, ask(edge, leader, key, request)).await;
            let told = match answer {
                Ok(Ok(told)) if told.links.len() == rows.len() => told.links,
                Ok(Ok(_)) => return Asked::Failed,
                Ok(Err(why)) => {
                    tracing::debug!("the leader does not tell of its links: {why}");
                    return Asked::Failed;
                }
                Err(_) => return Asked::Failed,
            };
            let told = rows.into_iter().zip(told);
            let told = told.map(|(row, told)| (row, from_wire(row, told)));
            collection.tell_links(field, told);
        }
    }
    asked
}

async fn ask(
    edge: &Edge,
    leader: &ServerAt,
    key: &PeerKey,
    message: wire::LinksRequest,
) -> Result<wire::LinksResponse, String> {
    let key: MetadataValue<Ascii> =
        key.text().parse().map_err(|_| "its key is no text".to_owned())?;
    let (channel, _turn) = edge.channel(leader).await?;
    let mut request = Request::new(message);
    request.metadata_mut().insert(KEY, key);
    let answer = GraphsClient::new(channel).links(request).await;
    answer.map(Response::into_inner).map_err(|status| status.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_come_as_they_went_and_places_that_are_none_are_left_out() {
        let row = RowId(1 << 40);
        let neighbours = vec![RowId(9), RowId(4), RowId(1 << 33)];
        let link = RowLink { row, neighbours, back_edges: vec![RowId(9), RowId(1 << 33)] };
        let made = LinkOf::Made { order: 7, link };
        for link in [LinkOf::Unknown, LinkOf::Waits, made.clone()] {
            assert_eq!(from_wire(row, to_wire(link.clone())), link);
        }
        let mut odd = to_wire(made.clone());
        odd.back_edges.extend([3, u32::MAX]);
        assert_eq!(from_wire(row, odd), made);
        assert_eq!(
            from_wire(row, wire::RowLink { state: 9, ..Default::default() }),
            LinkOf::Unknown
        );
    }
}
