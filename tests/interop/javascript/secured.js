// KafkaJS with TLS and a login: writes a record to a topic and reads it in a group, as the programs in ../go do.
// The only argument has options as JSON; it prints "read LENGTH", or an error and ends with status 1.

const { Kafka, logLevel } = require("kafkajs");

const options = JSON.parse(process.argv[2]);
const VALUE = "v".repeat(100_000);

async function run() {
  const { mechanism, user, password, certificate, key, authority, server, topic, group } = options;
  const kafka = new Kafka({
    brokers: [server],
    logLevel: logLevel.NOTHING,
    retry: { retries: 2 },
    ssl: { ca: [authority], ...(certificate ? { cert: certificate, key } : {}) },
    ...(mechanism ? { sasl: { mechanism: mechanism.toLowerCase(), username: user, password } } : {}),
  });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, messages: [{ value: VALUE }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: group });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const value = await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject);
  });
  await consumer.disconnect();
  return value;
}

run().then(
  (value) => {
    console.log("read", value.length);
    process.exit(0);
  },
  (error) => {
    console.log("error:", String(error));
    process.exit(1);
  },
);
