// Command first_contact takes the first steps of a user of Milvus, by the Go SDK:
//
//	go run . HOST:PORT
//
// Each step asserts what it gets back. It ends with code 0 only when all did.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/milvus-io/milvus/client/v2/column"
	"github.com/milvus-io/milvus/client/v2/entity"
	"github.com/milvus-io/milvus/client/v2/index"
	milvus "github.com/milvus-io/milvus/client/v2/milvusclient"
)

const (
	name   = "go_books"
	rows   = 100
	near   = 7.2
	dim    = 4
	enough = 2 * time.Minute
)

var colors = []string{"red", "green", "blue"}

// contact is a connection, and what is needed at every step.
type contact struct {
	*milvus.Client
	ctx context.Context
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: first_contact HOST:PORT")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	client, err := milvus.New(ctx, &milvus.ClientConfig{Address: os.Args[1]})
	must(err)
	defer client.Close(ctx)
	c := contact{client, ctx}
	steps := []struct {
		name string
		take func(contact)
	}{
		{"version", version}, {"quick form", quickForm}, {"declare and fill", declareAndFill},
		{"search", search}, {"hybrid search", hybridSearch}, {"read and change", readAndChange},
		{"iterate", iterate}, {"partitions", partitions}, {"aliases", aliases},
		{"databases", databases}, {"refusals", refusals},
	}
	for _, step := range steps {
		step.take(c)
		fmt.Println(step.name, "passed")
	}
}

// must ends the program where a call failed.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// got is the result of a call that has to succeed.
func got[T any](value T, err error) T {
	must(err)
	return value
}

// same ends the program where two values differ.
func same[T any](found, wanted T) {
	if a, b := fmt.Sprint(found), fmt.Sprint(wanted); a != b {
		panic(fmt.Sprintf("found %s where %s was wanted", a, b))
	}
}

// at is a vector on one of the axes.
func at(axis int, x float64) entity.FloatVector {
	vector := make(entity.FloatVector, dim)
	vector[axis] = float32(x)
	return vector
}

// columns are rows, of which row i lies at i on the first axis, and mirrored on the second axis of
// its other vector.
func columns(from, to int) []column.Column {
	var ids, prices []int64
	var names, notes []string
	var vectors, others [][]float32
	for i := from; i < to; i++ {
		ids, prices = append(ids, int64(i)), append(prices, int64(i))
		names, notes = append(names, colors[i%3]), append(notes, fmt.Sprintf("n%d", i))
		vectors = append(vectors, at(0, float64(i)))
		others = append(others, at(1, float64(rows-i)))
	}
	return []column.Column{
		column.NewColumnInt64("id", ids),
		column.NewColumnFloatVector("vector", dim, vectors),
		column.NewColumnFloatVector("other", dim, others),
		column.NewColumnVarChar("color", names),
		column.NewColumnInt64("price", prices),
		column.NewColumnVarChar("note", notes),
	}
}

// keys are the primary keys of an answer.
func keys(result milvus.ResultSet) []int64 {
	must(result.Err)
	return integers(result.IDs)
}

// integers are the values of a column.
func integers(values column.Column) []int64 {
	var found []int64
	for i := range values.Len() {
		found = append(found, got(values.GetAsInt64(i)))
	}
	return found
}

// texts are the values of a column.
func texts(values column.Column) []string {
	var found []string
	for i := range values.Len() {
		found = append(found, got(values.GetAsString(i)))
	}
	return found
}

func version(c contact) {
	said := got(c.GetServerVersion(c.ctx, milvus.NewGetServerVersionOption()))
	if said == "" {
		panic("the server has no version")
	}
}

func quickForm(c contact) {
	quick := "go_quick"
	must(c.CreateCollection(c.ctx, milvus.SimpleCreateCollectionOptions(quick, dim)))
	same(got(c.HasCollection(c.ctx, milvus.NewHasCollectionOption(quick))), true)
	// This form numbers rows by itself and compares angles.
	data := [][]float32{{1, 0, 0, 0}, {1, 1, 0, 0}, {0, 1, 0, 0}}
	inserted := got(c.Insert(c.ctx, milvus.NewColumnBasedInsertOption(quick).
		WithFloatVectorColumn("vector", dim, data)))
	same(inserted.InsertCount, 3)
	given := integers(inserted.IDs)
	query := []entity.Vector{entity.FloatVector{1, 0.1, 0, 0}}
	found := got(c.Search(c.ctx, milvus.NewSearchOption(quick, 3, query)))
	same(keys(found[0]), given)
	if cosine := 1 / math.Sqrt(1.01); math.Abs(float64(found[0].Scores[0])-cosine) > 1e-5 {
		panic(fmt.Sprint("not a cosine: ", found[0].Scores[0]))
	}
	must(c.DropCollection(c.ctx, milvus.NewDropCollectionOption(quick)))
	same(got(c.HasCollection(c.ctx, milvus.NewHasCollectionOption(quick))), false)
}

func declareAndFill(c contact) {
	vector := func(name string) *entity.Field {
		return entity.NewField().WithName(name).WithDataType(entity.FieldTypeFloatVector).WithDim(dim)
	}
	schema := entity.NewSchema().WithDescription("books").WithDynamicFieldEnabled(true).
		WithField(entity.NewField().WithName("id").WithDataType(entity.FieldTypeInt64).WithIsPrimaryKey(true)).
		WithField(vector("vector")).WithField(vector("other")).
		WithField(entity.NewField().WithName("color").WithDataType(entity.FieldTypeVarChar).WithMaxLength(16)).
		WithField(entity.NewField().WithName("price").WithDataType(entity.FieldTypeInt64))
	must(c.CreateCollection(c.ctx, milvus.NewCreateCollectionOption(name, schema)))
	described := got(c.DescribeCollection(c.ctx, milvus.NewDescribeCollectionOption(name)))
	same(described.Schema.Description, "books")
	same(described.Schema.EnableDynamicField, true)
	same(described.Schema.PKFieldName(), "id")

	inserted := got(c.Insert(c.ctx, milvus.NewColumnBasedInsertOption(name, columns(0, rows)...)))
	same(inserted.InsertCount, rows)
	must(got(c.Flush(c.ctx, milvus.NewFlushOption(name))).Await(c.ctx))
	stats := got(c.GetCollectionStats(c.ctx, milvus.NewGetCollectionStatsOption(name)))
	same(stats["row_count"], "100")

	for field, kind := range map[string]index.Index{
		"vector": index.NewHNSWIndex(entity.L2, 16, 64),
		"other":  index.NewDiskANNIndex(entity.L2),
		"color":  index.NewInvertedIndex(),
	} {
		must(got(c.CreateIndex(c.ctx, milvus.NewCreateIndexOption(name, field, kind))).Await(c.ctx))
	}
	indexes := got(c.ListIndexes(c.ctx, milvus.NewListIndexOption(name)))
	slices.Sort(indexes)
	same(indexes, []string{"color", "other", "vector"})
	one := got(c.DescribeIndex(c.ctx, milvus.NewDescribeIndexOption(name, "vector")))
	same(one.Params()["index_type"], "HNSW")
	same(one.Params()["metric_type"], "L2")
	loading := got(c.LoadCollection(c.ctx, milvus.NewLoadCollectionOption(name)))
	must(loading.Await(c.ctx))
	state := got(c.GetLoadState(c.ctx, milvus.NewGetLoadStateOption(name)))
	same(state.State, entity.LoadStateLoaded)
}

func search(c contact) {
	query := []entity.Vector{at(0, near)}
	found := got(c.Search(c.ctx, milvus.NewSearchOption(name, 3, query).WithANNSField("vector").
		WithAnnParam(index.NewHNSWAnnParam(64))))
	same(keys(found[0]), []int64{7, 8, 6})
	if math.Abs(float64(found[0].Scores[0])-0.04) > 1e-5 {
		panic(fmt.Sprint("not a squared distance: ", found[0].Scores[0]))
	}
	found = got(c.Search(c.ctx, milvus.NewSearchOption(name, 3, query).WithANNSField("vector").
		WithFilter("price < 20 and color == 'red'").WithOutputFields("color", "price", "note")))
	same(keys(found[0]), []int64{6, 9, 3})
	same(texts(found[0].GetColumn("color")), []string{"red", "red", "red"})
	same(integers(found[0].GetColumn("price")), []int64{6, 9, 3})
	same(texts(found[0].GetColumn("note")), []string{"n6", "n9", "n3"})
	found = got(c.Search(c.ctx, milvus.NewSearchOption(name, 3, query).WithANNSField("vector").
		WithFilter("color in {colors}").WithTemplateParam("colors", []string{"blue"})))
	same(keys(found[0]), []int64{8, 5, 11})
	two := []entity.Vector{at(0, near), at(0, 50.2)}
	found = got(c.Search(c.ctx, milvus.NewSearchOption(name, 3, two).WithANNSField("vector")))
	same(keys(found[1]), []int64{50, 51, 49})
}

func hybridSearch(c contact) {
	here := milvus.NewAnnRequest("vector", 3, at(0, near)).WithAnnParam(index.NewHNSWAnnParam(64))
	there := milvus.NewAnnRequest("other", 3, at(1, rows-8.2)).
		WithAnnParam(index.NewDiskAnnParam(64))
	found := got(c.HybridSearch(c.ctx, milvus.NewHybridSearchOption(name, 3, here, there).
		WithReranker(milvus.NewRRFReranker()).WithOutputFields("color")))
	same(keys(found[0]), []int64{8, 7, 9})
	same(texts(found[0].GetColumn("color"))[0], "blue")
	found = got(c.HybridSearch(c.ctx, milvus.NewHybridSearchOption(name, 3, here, there).
		WithReranker(milvus.NewWeightedReranker([]float64{1, 0}))))
	// Distances are added as they are: what the first search has not found adds nothing.
	same(keys(found[0]), []int64{9, 7, 8})
}

func count(c contact) int64 {
	found := got(c.Query(c.ctx, milvus.NewQueryOption(name).WithOutputFields("count(*)")))
	return got(found.GetColumn("count(*)").GetAsInt64(0))
}

func readAndChange(c contact) {
	cheap := got(c.Query(c.ctx, milvus.NewQueryOption(name).
		WithFilter("color == 'blue' and price < 9").WithOutputFields("price", "note")))
	same(integers(cheap.GetColumn("price")), []int64{2, 5, 8})
	same(texts(cheap.GetColumn("note")), []string{"n2", "n5", "n8"})
	page := got(c.Query(c.ctx, milvus.NewQueryOption(name).WithFilter("id >= 0").
		WithOffset(10).WithLimit(2).WithOutputFields("id")))
	same(integers(page.GetColumn("id")), []int64{10, 11})
	nine := got(c.Get(c.ctx, milvus.NewQueryOption(name).
		WithIDs(column.NewColumnInt64("id", []int64{9})).WithOutputFields("vector")))
	same(got(nine.GetColumn("vector").Get(0)), any(at(0, 9)))
	same(count(c), rows)
	deleted := got(c.Delete(c.ctx, milvus.NewDeleteOption(name).WithInt64IDs("id", []int64{0, 1})))
	same(deleted.DeleteCount, 2)
	got(c.Delete(c.ctx, milvus.NewDeleteOption(name).WithExpr("id == 2")))
	same(count(c), rows-3)
	upserted := got(c.Upsert(c.ctx, milvus.NewColumnBasedInsertOption(name, columns(0, 2)...)))
	same(upserted.UpsertCount, 2)
	same(count(c), rows-1)
}

func iterate(c contact) {
	pages := got(c.QueryIterator(c.ctx, milvus.NewQueryIteratorOption(name).
		WithFilter("price >= 10").WithBatchSize(20).WithOutputFields("id")))
	var read, wanted []int64
	for page, err := pages.Next(c.ctx); !errors.Is(err, io.EOF); page, err = pages.Next(c.ctx) {
		must(err)
		read = append(read, integers(page.GetColumn("id"))...)
	}
	for i := int64(10); i < rows; i++ {
		wanted = append(wanted, i)
	}
	same(read, wanted)

	walk := got(c.SearchIterator(c.ctx, milvus.NewSearchIteratorOption(name, at(0, near)).
		WithANNSField("vector").WithBatchSize(15).WithIteratorLimit(50)))
	met := map[int64]bool{}
	var first []int64
	for batch, err := walk.Next(c.ctx); !errors.Is(err, io.EOF); batch, err = walk.Next(c.ctx) {
		must(err)
		for _, key := range keys(batch) {
			met[key] = true
			first = append(first, key)
		}
	}
	same(len(met), 50)
	same(len(first), 50)
	same(first[:3], []int64{7, 8, 6})
}

func partitions(c contact) {
	must(c.CreatePartition(c.ctx, milvus.NewCreatePartitionOption(name, "rare")))
	same(got(c.HasPartition(c.ctx, milvus.NewHasPartitionOption(name, "rare"))), true)
	listed := got(c.ListPartitions(c.ctx, milvus.NewListPartitionOption(name)))
	slices.Sort(listed)
	same(listed, []string{"_default", "rare"})
	got(c.Insert(c.ctx, milvus.NewColumnBasedInsertOption(name, columns(1000, 1003)...).
		WithPartition("rare")))
	found := got(c.Search(c.ctx, milvus.NewSearchOption(name, 5, []entity.Vector{at(0, near)}).
		WithANNSField("vector").WithPartitions("rare")))
	same(keys(found[0]), []int64{1000, 1001, 1002})
	must(c.ReleasePartitions(c.ctx, milvus.NewReleasePartitionsOptions(name, "rare")))
	must(c.DropPartition(c.ctx, milvus.NewDropPartitionOption(name, "rare")))
	same(got(c.HasPartition(c.ctx, milvus.NewHasPartitionOption(name, "rare"))), false)
}

func aliases(c contact) {
	must(c.CreateAlias(c.ctx, milvus.NewCreateAliasOption(name, "go_shelf")))
	same(got(c.DescribeAlias(c.ctx, milvus.NewDescribeAliasOption("go_shelf"))).CollectionName, name)
	found := got(c.Search(c.ctx, milvus.NewSearchOption("go_shelf", 1, []entity.Vector{at(0, near)}).
		WithANNSField("vector")))
	same(keys(found[0]), []int64{7})
	same(got(c.ListAliases(c.ctx, milvus.NewListAliasesOption(name))), []string{"go_shelf"})
	must(c.DropAlias(c.ctx, milvus.NewDropAliasOption("go_shelf")))
}

func databases(c contact) {
	must(c.CreateDatabase(c.ctx, milvus.NewCreateDatabaseOption("go_db")))
	listed := got(c.ListDatabase(c.ctx, milvus.NewListDatabaseOption()))
	same(slices.Contains(listed, "go_db"), true)
	must(c.UseDatabase(c.ctx, milvus.NewUseDatabaseOption("go_db")))
	same(len(got(c.ListCollections(c.ctx, milvus.NewListCollectionOption()))), 0)
	must(c.UseDatabase(c.ctx, milvus.NewUseDatabaseOption("default")))
	must(c.DropDatabase(c.ctx, milvus.NewDropDatabaseOption("go_db")))
}

func refusals(c contact) {
	_, err := c.Search(c.ctx, milvus.NewSearchOption("go_missing", 1, []entity.Vector{at(0, near)}))
	refused(err, "can't find collection")
	must(c.ReleaseCollection(c.ctx, milvus.NewReleaseCollectionOption(name)))
	_, err = c.Search(c.ctx, milvus.NewSearchOption(name, 1, []entity.Vector{at(0, near)}).
		WithANNSField("vector"))
	refused(err, "collection not loaded")
	must(c.DropIndex(c.ctx, milvus.NewDropIndexOption(name, "vector")))
	must(c.DropCollection(c.ctx, milvus.NewDropCollectionOption(name)))
}

// refused ends the program where a call succeeded, or failed for another reason.
func refused(err error, reason string) {
	if err == nil || !strings.Contains(err.Error(), reason) {
		panic(fmt.Sprintf("not refused by %q: %v", reason, err))
	}
}
