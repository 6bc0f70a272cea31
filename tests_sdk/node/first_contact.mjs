// The first steps of a user of Milvus, by the Node SDK: node first_contact.mjs HOST:PORT
//
// Each step asserts what it gets back. Ends with code 0 only when all did.

import assert from 'node:assert/strict';
import { ConsistencyLevelEnum, DataType, MilvusClient } from '@zilliz/milvus2-sdk-node';

const NAME = 'node_books';
const COLORS = ['red', 'green', 'blue'];
const ROWS = 100;

/** Row `i` lies at `i` on the first axis, and mirrored on the second axis of its other vector. */
const row = i => ({
  id: i,
  vector: [i, 0, 0, 0],
  other: [0, ROWS - i, 0, 0],
  color: COLORS[i % 3],
  price: i,
  note: `n${i}`,
});
const rows = (from, to) => Array.from({ length: to - from }, (_, i) => row(from + i));
const near = 7.2;
const ids = hits => hits.map(hit => Number(hit.id));

/** The answer, unless it says that the call failed. */
async function ok(call) {
  const answer = await call;
  const status = answer.status ?? answer;
  assert.equal(status.error_code, 'Success', status.reason);
  return answer;
}

async function quickForm(client) {
  const name = 'node_quick';
  await ok(client.createCollection({ collection_name: name, dimension: 4, metric_type: 'L2' }));
  assert.equal((await ok(client.hasCollection({ collection_name: name }))).value, true);
  const vectors = rows(0, 10).map(({ id, vector }) => ({ id, vector }));
  const inserted = await ok(client.insert({ collection_name: name, data: vectors }));
  assert.equal(inserted.insert_cnt, '10');
  const found = await ok(client.search({ collection_name: name, data: [near, 0, 0, 0], limit: 2 }));
  assert.deepEqual(ids(found.results), [7, 8]);
  await ok(client.dropCollection({ collection_name: name }));
  assert.equal((await ok(client.hasCollection({ collection_name: name }))).value, false);
}

async function declareAndFill(client) {
  await ok(client.createCollection({
    collection_name: NAME,
    description: 'books',
    fields: [
      { name: 'id', data_type: DataType.Int64, is_primary_key: true },
      { name: 'vector', data_type: DataType.FloatVector, dim: 4 },
      { name: 'other', data_type: DataType.FloatVector, dim: 4 },
      { name: 'color', data_type: DataType.VarChar, max_length: 16 },
      { name: 'price', data_type: DataType.Int64 },
    ],
    enable_dynamic_field: true,
    consistency_level: ConsistencyLevelEnum.Strong,
  }));
  const described = await ok(client.describeCollection({ collection_name: NAME }));
  assert.deepEqual(
    described.schema.fields.map(field => field.name),
    ['id', 'vector', 'other', 'color', 'price'],
  );
  assert.equal(described.schema.enable_dynamic_field, true);
  await ok(client.insert({ collection_name: NAME, data: rows(0, ROWS) }));
  await ok(client.flushSync({ collection_names: [NAME] }));
  const stats = await ok(client.getCollectionStatistics({ collection_name: NAME }));
  assert.equal(Number(stats.data.row_count), ROWS);
  await ok(client.createIndex([
    {
      collection_name: NAME, field_name: 'vector',
      index_type: 'HNSW', metric_type: 'L2', params: { M: 16, efConstruction: 64 },
    },
    { collection_name: NAME, field_name: 'other', index_type: 'DISKANN', metric_type: 'L2' },
    { collection_name: NAME, field_name: 'color', index_type: 'INVERTED', index_name: 'by_color' },
  ]));
  const { index_descriptions: indexes } = await ok(client.describeIndex({ collection_name: NAME }));
  assert.deepEqual(indexes.map(i => i.index_name).sort(), ['by_color', 'other', 'vector']);
  const before = await client.getLoadState({ collection_name: NAME });
  assert.equal(before.state, 'LoadStateNotLoad');
  await ok(client.loadCollectionSync({ collection_name: NAME }));
  const after = await client.getLoadState({ collection_name: NAME });
  assert.equal(after.state, 'LoadStateLoaded');
}

async function search(client) {
  const ask = { collection_name: NAME, anns_field: 'vector', data: [near, 0, 0, 0], limit: 3 };
  const plain = await ok(client.search({ ...ask, params: { ef: 64 } }));
  assert.deepEqual(ids(plain.results), [7, 8, 6]);
  assert.ok(Math.abs(plain.results[0].score - 0.04) < 1e-5);
  const { results } = await ok(client.search({
    ...ask,
    filter: "price < 20 and color == 'red'",
    output_fields: ['id', 'color', 'price', 'note'], // this SDK shows the key only when asked
  }));
  assert.deepEqual(
    results.map(({ id, color, price, note }) => [Number(id), color, Number(price), note]),
    [[6, 'red', 6, 'n6'], [9, 'red', 9, 'n9'], [3, 'red', 3, 'n3']],
  );
  const both = await ok(client.search({ ...ask, data: [[near, 0, 0, 0], [50.2, 0, 0, 0]] }));
  assert.deepEqual(both.results.map(ids), [[7, 8, 6], [50, 51, 49]]);
  const template = await ok(client.search({
    ...ask, filter: 'color in {colors}', exprValues: { colors: ['blue'] },
  }));
  assert.deepEqual(ids(template.results), [8, 5, 11]);
}

async function hybridSearch(client) {
  const data = [
    { anns_field: 'vector', data: [near, 0, 0, 0], params: { ef: 64 } },
    { anns_field: 'other', data: [0, ROWS - 8.2, 0, 0], params: { search_list: 64 } },
  ];
  const ask = { collection_name: NAME, data, limit: 3, output_fields: ['id', 'color'] };
  const ranked = await ok(
    client.hybridSearch({ ...ask, rerank: { strategy: 'rrf', params: { k: 60 } } }),
  );
  assert.deepEqual(ids(ranked.results), [8, 7, 9]);
  assert.equal(ranked.results[0].color, 'blue');
  const weighted = await ok(
    client.hybridSearch({ ...ask, rerank: { strategy: 'weighted', params: { weights: [1, 0] } } }),
  );
  // Distances are added as they are: what the first search has not found adds nothing.
  assert.deepEqual(ids(weighted.results), [9, 7, 8]);
}

async function readAndChange(client) {
  const cheap = await ok(client.query({
    collection_name: NAME, filter: "color == 'blue' and price < 9", output_fields: ['price', 'note'],
  }));
  // Keys without a field of their own: a query shows them together, unlike a search.
  assert.deepEqual(cheap.data.map(r => [r.id, r.price, r.$meta]), [
    ['2', '2', { note: 'n2' }], ['5', '5', { note: 'n5' }], ['8', '8', { note: 'n8' }],
  ]);
  const page = await ok(client.query({
    collection_name: NAME, filter: 'id >= 0', offset: 10, limit: 2, output_fields: ['id'],
  }));
  assert.deepEqual(page.data.map(r => r.id), ['10', '11']);
  const got = await ok(client.get({ collection_name: NAME, ids: [9], output_fields: ['vector'] }));
  assert.deepEqual(Array.from(got.data[0].vector), [9, 0, 0, 0]);
  const count = async () => Number((await ok(client.count({ collection_name: NAME }))).data);
  assert.equal(await count(), ROWS);
  const deleted = await ok(client.delete({ collection_name: NAME, ids: [0, 1] }));
  assert.equal(deleted.delete_cnt, '2');
  await ok(client.delete({ collection_name: NAME, filter: 'id == 2' }));
  assert.equal(await count(), ROWS - 3);
  const upserted = await ok(client.upsert({
    collection_name: NAME, data: [{ ...row(9), color: 'pink' }, row(0)],
  }));
  assert.equal(upserted.upsert_cnt, '2');
  assert.equal(await count(), ROWS - 2);
  const pink = await ok(client.query({ collection_name: NAME, filter: "color == 'pink'" }));
  assert.deepEqual(pink.data.map(r => r.id), ['9']);
}

async function iterate(client) {
  const pages = await client.queryIterator({
    collection_name: NAME, filter: 'price >= 10', batchSize: 20, output_fields: ['id'],
  });
  const read = [];
  for await (const page of pages) read.push(...page.map(r => Number(r.id)));
  assert.deepEqual(read, Array.from({ length: ROWS - 10 }, (_, i) => i + 10));
  const walk = await client.searchIterator({
    collection_name: NAME, anns_field: 'vector', data: [near, 0, 0, 0], batchSize: 15, limit: 50,
  });
  const met = [];
  for await (const page of walk) met.push(...ids(page));
  assert.equal(met.length, 50);
  assert.equal(new Set(met).size, 50);
  assert.deepEqual(met.slice(0, 3), [7, 8, 6]);
}

async function partitions(client) {
  const place = { collection_name: NAME, partition_name: 'rare' };
  await ok(client.createPartition(place));
  assert.equal((await ok(client.hasPartition(place))).value, true);
  const { partition_names: names } = await ok(client.showPartitions({ collection_name: NAME }));
  assert.deepEqual([...names].sort(), ['_default', 'rare']);
  await ok(client.insert({ ...place, data: rows(1000, 1003) }));
  const ask = { collection_name: NAME, anns_field: 'vector', data: [near, 0, 0, 0], limit: 5 };
  const there = await ok(client.search({ ...ask, partition_names: ['rare'] }));
  assert.deepEqual(ids(there.results), [1000, 1001, 1002]);
  await ok(client.releasePartitions({ collection_name: NAME, partition_names: ['rare'] }));
  await ok(client.dropPartition(place));
  assert.equal((await ok(client.hasPartition(place))).value, false);
}

async function aliases(client) {
  await ok(client.createAlias({ collection_name: NAME, alias: 'node_shelf' }));
  const described = await ok(client.describeAlias({ collection_name: NAME, alias: 'node_shelf' }));
  assert.equal(described.collection, NAME);
  const found = await ok(client.search({
    collection_name: 'node_shelf', anns_field: 'vector', data: [near, 0, 0, 0], limit: 1,
  }));
  assert.deepEqual(ids(found.results), [7]);
  const listed = await ok(client.listAliases({ collection_name: NAME }));
  assert.deepEqual(listed.aliases, ['node_shelf']);
  await ok(client.dropAlias({ alias: 'node_shelf' }));
}

async function databases(client) {
  await ok(client.createDatabase({ db_name: 'node_db' }));
  assert.ok((await ok(client.listDatabases())).db_names.includes('node_db'));
  await client.useDatabase({ db_name: 'node_db' });
  assert.deepEqual((await ok(client.showCollections())).data, []);
  await client.useDatabase({ db_name: 'default' });
  await ok(client.dropDatabase({ db_name: 'node_db' }));
}

async function refusals(client) {
  const missing = await client.describeCollection({ collection_name: 'node_missing' });
  assert.equal(missing.status.code, 100);
  assert.match(missing.status.reason, /can't find collection/);
  await ok(client.releaseCollection({ collection_name: NAME }));
  const refused = await client.search({
    collection_name: NAME, anns_field: 'vector', data: [near, 0, 0, 0], limit: 1,
  });
  assert.equal(refused.status.code, 101);
  assert.match(refused.status.reason, /collection not loaded/);
  await ok(client.dropIndex({ collection_name: NAME, index_name: 'vector', field_name: 'vector' }));
  await ok(client.dropCollection({ collection_name: NAME }));
}

const client = new MilvusClient({ address: process.argv[2] });
try {
  await client.connectPromise;
  assert.match((await ok(client.getVersion())).version, /^v?2\./);
  assert.equal((await ok(client.checkHealth())).isHealthy, true);
  const steps = [
    quickForm, declareAndFill, search, hybridSearch, readAndChange, iterate, partitions, aliases,
    databases, refusals,
  ];
  for (const step of steps) {
    await step(client);
    console.log(`${step.name} passed`);
  }
} finally {
  await client.closeConnection();
}
