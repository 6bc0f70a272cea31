import com.google.gson.Gson;
import com.google.gson.JsonObject;
import io.milvus.orm.iterator.QueryIterator;
import io.milvus.orm.iterator.SearchIteratorV2;
import io.milvus.response.QueryResultsWrapper.RowRecord;
import io.milvus.v2.client.ConnectConfig;
import io.milvus.v2.client.MilvusClientV2;
import io.milvus.v2.common.DataType;
import io.milvus.v2.common.IndexParam;
import io.milvus.v2.exception.MilvusClientException;
import io.milvus.v2.service.collection.request.AddFieldReq;
import io.milvus.v2.service.collection.request.CreateCollectionReq;
import io.milvus.v2.service.collection.request.DescribeCollectionReq;
import io.milvus.v2.service.collection.request.DropCollectionReq;
import io.milvus.v2.service.collection.request.GetCollectionStatsReq;
import io.milvus.v2.service.collection.request.GetLoadStateReq;
import io.milvus.v2.service.collection.request.HasCollectionReq;
import io.milvus.v2.service.collection.request.LoadCollectionReq;
import io.milvus.v2.service.collection.request.ReleaseCollectionReq;
import io.milvus.v2.service.database.request.CreateDatabaseReq;
import io.milvus.v2.service.database.request.DropDatabaseReq;
import io.milvus.v2.service.index.request.CreateIndexReq;
import io.milvus.v2.service.index.request.DescribeIndexReq;
import io.milvus.v2.service.index.request.DropIndexReq;
import io.milvus.v2.service.index.request.ListIndexesReq;
import io.milvus.v2.service.partition.request.CreatePartitionReq;
import io.milvus.v2.service.partition.request.DropPartitionReq;
import io.milvus.v2.service.partition.request.HasPartitionReq;
import io.milvus.v2.service.partition.request.ListPartitionsReq;
import io.milvus.v2.service.partition.request.ReleasePartitionsReq;
import io.milvus.v2.service.utility.request.CreateAliasReq;
import io.milvus.v2.service.utility.request.DescribeAliasReq;
import io.milvus.v2.service.utility.request.DropAliasReq;
import io.milvus.v2.service.utility.request.FlushReq;
import io.milvus.v2.service.utility.request.ListAliasesReq;
import io.milvus.v2.service.vector.request.AnnSearchReq;
import io.milvus.v2.service.vector.request.DeleteReq;
import io.milvus.v2.service.vector.request.GetReq;
import io.milvus.v2.service.vector.request.HybridSearchReq;
import io.milvus.v2.service.vector.request.InsertReq;
import io.milvus.v2.service.vector.request.QueryIteratorReq;
import io.milvus.v2.service.vector.request.QueryReq;
import io.milvus.v2.service.vector.request.SearchIteratorReqV2;
import io.milvus.v2.service.vector.request.SearchReq;
import io.milvus.v2.service.vector.request.UpsertReq;
import io.milvus.v2.service.vector.request.data.BaseVector;
import io.milvus.v2.service.vector.request.data.FloatVec;
import io.milvus.v2.service.vector.request.ranker.RRFRanker;
import io.milvus.v2.service.vector.request.ranker.WeightedRanker;
import io.milvus.v2.service.vector.response.QueryResp.QueryResult;
import io.milvus.v2.service.vector.response.SearchResp.SearchResult;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/**
 * The first steps of a user of Milvus, by the Java SDK. Each asserts what it gets back; the program
 * ends with code 0 only when all did.
 */
public final class FirstContact {
    private static final String NAME = "java_books";
    private static final int ROWS = 100;
    private static final float NEAR = 7.2f;
    private static final List<String> COLORS = List.of("red", "green", "blue");

    private final MilvusClientV2 client;

    private FirstContact(MilvusClientV2 client) {
        this.client = client;
    }

    /** Takes all steps at the server whose address is the only argument. */
    public static void main(String[] arguments) {
        var config = ConnectConfig.builder().uri("http://" + arguments[0]).build();
        var client = new MilvusClientV2(config);
        try {
            Map<String, Consumer<FirstContact>> steps = new LinkedHashMap<>();
            steps.put("version", FirstContact::version);
            steps.put("quick form", FirstContact::quickForm);
            steps.put("declare and fill", FirstContact::declareAndFill);
            steps.put("search", FirstContact::search);
            steps.put("hybrid search", FirstContact::hybridSearch);
            steps.put("read and change", FirstContact::readAndChange);
            steps.put("query iterator", FirstContact::queryIterator);
            steps.put("search iterator", FirstContact::searchIterator);
            steps.put("partitions", FirstContact::partitions);
            steps.put("aliases", FirstContact::aliases);
            steps.put("databases", FirstContact::databases);
            steps.put("refusals", FirstContact::refusals);
            var contact = new FirstContact(client);
            steps.forEach((name, step) -> {
                step.accept(contact);
                System.out.println(name + " passed");
            });
        } finally {
            client.close();
        }
    }

    private static void same(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError("found " + found + " where " + wanted + " was wanted");
        }
    }

    private static void refused(String reason, Runnable call) {
        try {
            call.run();
        } catch (MilvusClientException error) {
            if (error.getMessage().contains(reason)) {
                return;
            }
            throw error;
        }
        throw new AssertionError("not refused: " + reason);
    }

    private static List<Float> at(int axis, float x) {
        var vector = new ArrayList<>(List.of(0f, 0f, 0f, 0f));
        vector.set(axis, x);
        return vector;
    }

    private static List<BaseVector> near(float... places) {
        List<BaseVector> vectors = new ArrayList<>();
        for (float place : places) {
            vectors.add(new FloatVec(at(0, place)));
        }
        return vectors;
    }

    /** Row i lies at i on the first axis, and mirrored on the second axis of its other vector. */
    private static JsonObject row(int i) {
        var gson = new Gson();
        var row = new JsonObject();
        row.addProperty("id", i);
        row.add("vector", gson.toJsonTree(at(0, i)));
        row.add("other", gson.toJsonTree(at(1, ROWS - i)));
        row.addProperty("color", COLORS.get(i % 3));
        row.addProperty("price", i);
        row.addProperty("note", "n" + i);
        return row;
    }

    private static List<JsonObject> rows(int from, int to) {
        return IntStream.range(from, to).mapToObj(FirstContact::row).toList();
    }

    private static List<Object> keys(List<SearchResult> hits) {
        return hits.stream().map(SearchResult::getId).toList();
    }

    private static List<Object> values(List<QueryResult> rows, String field) {
        return rows.stream().map(row -> row.getEntity().get(field)).toList();
    }

    private static SearchReq.SearchReqBuilder ask(float... places) {
        return SearchReq.builder().collectionName(NAME).annsField("vector").data(near(places)).limit(3);
    }

    private boolean exists(String name) {
        return client.hasCollection(HasCollectionReq.builder().collectionName(name).build());
    }

    private void drop(String name) {
        client.dropCollection(DropCollectionReq.builder().collectionName(name).build());
    }

    private void version() {
        same(client.getServerVersion().isEmpty(), false);
        same(client.checkHealth().getIsHealthy(), true);
    }

    private void quickForm() {
        var quick = "java_quick";
        client.createCollection(
                CreateCollectionReq.builder().collectionName(quick).dimension(4).metricType("L2").build());
        same(exists(quick), true);
        var data = rows(0, 10);
        data.forEach(row -> row.remove("other"));
        var inserted = client.insert(InsertReq.builder().collectionName(quick).data(data).build());
        same(inserted.getInsertCnt(), 10L);
        var found = client.search(
                SearchReq.builder().collectionName(quick).data(near(NEAR)).limit(2).build());
        same(keys(found.getSearchResults().get(0)), List.of(7L, 8L));
        drop(quick);
        same(exists(quick), false);
    }

    private void declareAndFill() {
        var schema = MilvusClientV2.CreateSchema();
        schema.setEnableDynamicField(true);
        schema.addField(AddFieldReq.builder().fieldName("id").dataType(DataType.Int64)
                .isPrimaryKey(true).autoID(false).build());
        for (var name : List.of("vector", "other")) {
            schema.addField(AddFieldReq.builder().fieldName(name).dataType(DataType.FloatVector)
                    .dimension(4).build());
        }
        schema.addField(AddFieldReq.builder().fieldName("color").dataType(DataType.VarChar)
                .maxLength(16).build());
        schema.addField(AddFieldReq.builder().fieldName("price").dataType(DataType.Int64).build());
        client.createCollection(CreateCollectionReq.builder().collectionName(NAME)
                .description("books").collectionSchema(schema).build());
        var described = client.describeCollection(
                DescribeCollectionReq.builder().collectionName(NAME).build());
        same(described.getFieldNames(), List.of("id", "vector", "other", "color", "price"));
        same(described.getPrimaryFieldName(), "id");
        same(described.getEnableDynamicField(), true);

        var inserted = client.insert(
                InsertReq.builder().collectionName(NAME).data(rows(0, ROWS)).build());
        same(inserted.getPrimaryKeys(), LongStream.range(0, ROWS).boxed().toList());
        client.flush(FlushReq.builder().collectionNames(List.of(NAME)).build());
        var stats = client.getCollectionStats(
                GetCollectionStatsReq.builder().collectionName(NAME).build());
        same(stats.getNumOfEntities(), (long) ROWS);
        index();
        var state = GetLoadStateReq.builder().collectionName(NAME).build();
        same(client.getLoadState(state), false);
        client.loadCollection(LoadCollectionReq.builder().collectionName(NAME).build());
        same(client.getLoadState(state), true);
    }

    private void index() {
        client.createIndex(CreateIndexReq.builder().collectionName(NAME).indexParams(List.of(
                IndexParam.builder().fieldName("vector").indexType(IndexParam.IndexType.HNSW)
                        .metricType(IndexParam.MetricType.L2)
                        .extraParams(Map.of("M", 16, "efConstruction", 64)).build(),
                IndexParam.builder().fieldName("other").indexType(IndexParam.IndexType.DISKANN)
                        .metricType(IndexParam.MetricType.L2).build(),
                IndexParam.builder().fieldName("color").indexName("by_color")
                        .indexType(IndexParam.IndexType.INVERTED).build())).build());
        var names = client.listIndexes(ListIndexesReq.builder().collectionName(NAME).build());
        same(new HashSet<>(names), Set.of("vector", "other", "by_color"));
        var described = client.describeIndex(
                DescribeIndexReq.builder().collectionName(NAME).fieldName("vector").build());
        var one = described.getIndexDescByFieldName("vector");
        same(one.getIndexType(), IndexParam.IndexType.HNSW);
        same(one.getMetricType(), IndexParam.MetricType.L2);
        same(one.getTotalRows(), (long) ROWS);
    }

    private void search() {
        var found = client.search(ask(NEAR).searchParams(Map.of("ef", 64)).build());
        same(keys(found.getSearchResults().get(0)), List.of(7L, 8L, 6L));
        var score = found.getSearchResults().get(0).get(0).getScore();
        same(Math.abs(score - 0.04) < 1e-5, true);

        found = client.search(ask(NEAR).filter("price < 20 and color == 'red'")
                .outputFields(List.of("color", "price", "note")).build());
        same(keys(found.getSearchResults().get(0)), List.of(6L, 9L, 3L));
        var first = found.getSearchResults().get(0).get(0).getEntity();
        same(first.get("color"), "red");
        same(first.get("price"), 6L);
        same(first.get("note"), "n6");

        found = client.search(ask(NEAR, 50.2f).build());
        same(keys(found.getSearchResults().get(1)), List.of(50L, 51L, 49L));
        found = client.search(ask(NEAR).filter("color in {colors}")
                .filterTemplateValues(Map.of("colors", List.of("blue"))).build());
        same(keys(found.getSearchResults().get(0)), List.of(8L, 5L, 11L));
    }

    private void hybridSearch() {
        var here = AnnSearchReq.builder().vectorFieldName("vector").vectors(near(NEAR)).limit(3)
                .params("{\"ef\": 64}").build();
        List<BaseVector> mirrored = List.of(new FloatVec(at(1, ROWS - 8.2f)));
        var there = AnnSearchReq.builder().vectorFieldName("other").vectors(mirrored).limit(3)
                .params("{\"search_list\": 64}").build();
        var ask = HybridSearchReq.builder().collectionName(NAME).limit(3)
                .searchRequests(List.of(here, there)).outFields(List.of("color"));
        var ranked = client.hybridSearch(ask.ranker(RRFRanker.builder().k(60).build()).build());
        same(keys(ranked.getSearchResults().get(0)), List.of(8L, 7L, 9L));
        same(ranked.getSearchResults().get(0).get(0).getEntity().get("color"), "blue");
        var weights = WeightedRanker.builder().weights(List.of(1f, 0f)).build();
        var weighted = client.hybridSearch(ask.ranker(weights).build());
        // Distances are added as they are: what the first search has not found adds nothing.
        same(keys(weighted.getSearchResults().get(0)), List.of(9L, 7L, 8L));
    }

    private Object count() {
        var counted = client.query(
                QueryReq.builder().collectionName(NAME).outputFields(List.of("count(*)")).build());
        return counted.getQueryResults().get(0).getEntity().get("count(*)");
    }

    private void readAndChange() {
        var cheap = client.query(QueryReq.builder().collectionName(NAME)
                .filter("color == 'blue' and price < 9").outputFields(List.of("price", "note")).build());
        same(values(cheap.getQueryResults(), "id"), List.of(2L, 5L, 8L));
        same(values(cheap.getQueryResults(), "note"), List.of("n2", "n5", "n8"));
        var page = client.query(QueryReq.builder().collectionName(NAME).filter("id >= 0")
                .offset(10).limit(2).outputFields(List.of("id")).build());
        same(values(page.getQueryResults(), "id"), List.of(10L, 11L));
        var nine = client.get(GetReq.builder().collectionName(NAME).ids(List.of(9L))
                .outputFields(List.of("vector")).build());
        same(nine.getGetResults().get(0).getEntity().get("vector"), at(0, 9));

        same(count(), (long) ROWS);
        var deleted = client.delete(
                DeleteReq.builder().collectionName(NAME).ids(List.of(0L, 1L)).build());
        same(deleted.getDeleteCnt(), 2L);
        client.delete(DeleteReq.builder().collectionName(NAME).filter("id == 2").build());
        same(count(), ROWS - 3L);
        var pink = row(9);
        pink.addProperty("color", "pink");
        var upserted = client.upsert(
                UpsertReq.builder().collectionName(NAME).data(List.of(pink, row(0))).build());
        same(upserted.getUpsertCnt(), 2L);
        same(count(), ROWS - 2L);
        var found = client.query(QueryReq.builder().collectionName(NAME).filter("color == 'pink'").build());
        same(values(found.getQueryResults(), "id"), List.of(9L));
    }

    private void queryIterator() {
        QueryIterator pages = client.queryIterator(QueryIteratorReq.builder().collectionName(NAME)
                .expr("price >= 10").batchSize(20).outputFields(List.of("id")).build());
        List<Object> read = new ArrayList<>();
        for (var page = pages.next(); !page.isEmpty(); page = pages.next()) {
            for (RowRecord record : page) {
                read.add(record.get("id"));
            }
        }
        pages.close();
        same(read, LongStream.range(10, ROWS).boxed().toList());
    }

    private void searchIterator() {
        SearchIteratorV2 walk = client.searchIteratorV2(SearchIteratorReqV2.builder()
                .collectionName(NAME).vectorFieldName("vector").vectors(near(NEAR))
                .metricType(IndexParam.MetricType.L2)
                .batchSize(15).limit(50).build());
        List<Object> met = new ArrayList<>();
        for (var batch = walk.next(); !batch.isEmpty(); batch = walk.next()) {
            met.addAll(keys(batch));
        }
        walk.close();
        same(met.size(), 50);
        same(new HashSet<>(met).size(), 50);
        same(met.subList(0, 3), List.of(7L, 8L, 6L));
    }

    private boolean rareExists() {
        return client.hasPartition(
                HasPartitionReq.builder().collectionName(NAME).partitionName("rare").build());
    }

    private void partitions() {
        client.createPartition(
                CreatePartitionReq.builder().collectionName(NAME).partitionName("rare").build());
        same(rareExists(), true);
        var listed = client.listPartitions(ListPartitionsReq.builder().collectionName(NAME).build());
        same(new HashSet<>(listed), Set.of("_default", "rare"));
        client.insert(InsertReq.builder().collectionName(NAME).partitionName("rare")
                .data(rows(1000, 1003)).build());
        var found = client.search(ask(NEAR).limit(5).partitionNames(List.of("rare")).build());
        same(keys(found.getSearchResults().get(0)), List.of(1000L, 1001L, 1002L));
        client.releasePartitions(ReleasePartitionsReq.builder().collectionName(NAME)
                .partitionNames(List.of("rare")).build());
        client.dropPartition(
                DropPartitionReq.builder().collectionName(NAME).partitionName("rare").build());
        same(rareExists(), false);
    }

    private void aliases() {
        client.createAlias(CreateAliasReq.builder().collectionName(NAME).alias("java_shelf").build());
        var described = client.describeAlias(DescribeAliasReq.builder().alias("java_shelf").build());
        same(described.getCollectionName(), NAME);
        var found = client.search(ask(NEAR).collectionName("java_shelf").limit(1).build());
        same(keys(found.getSearchResults().get(0)), List.of(7L));
        var listed = client.listAliases(ListAliasesReq.builder().collectionName(NAME).build());
        same(listed.getAlias(), List.of("java_shelf"));
        client.dropAlias(DropAliasReq.builder().alias("java_shelf").build());
    }

    private void databases() {
        client.createDatabase(CreateDatabaseReq.builder().databaseName("java_db").build());
        same(client.listDatabases().getDatabaseNames().contains("java_db"), true);
        use("java_db");
        same(client.listCollections().getCollectionNames(), List.of());
        use("default");
        client.dropDatabase(DropDatabaseReq.builder().databaseName("java_db").build());
    }

    private void use(String database) {
        try {
            client.useDatabase(database);
        } catch (InterruptedException stopped) {
            throw new IllegalStateException(stopped);
        }
    }

    private void refusals() {
        refused("can't find collection", () -> client.describeCollection(
                DescribeCollectionReq.builder().collectionName("java_missing").build()));
        client.releaseCollection(ReleaseCollectionReq.builder().collectionName(NAME).build());
        refused("collection not loaded", () -> client.search(ask(NEAR).build()));
        client.dropIndex(DropIndexReq.builder().collectionName(NAME).fieldName("vector").build());
        drop(NAME);
    }
}
