import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's transactional producer, one call for each line of standard input: begin, send TOPIC PARTITION VALUE,
 * offsets GROUP TOPIC PARTITION OFFSET, commit, abort. It answers each with a line: ok, or the class of what was raised.
 * The first answer, before any call, is that of initTransactions.
 *
 * Arguments: the bootstrap servers, the transactional id.
 */
public class TransactionalProducer {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> options = Map.of(
            ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0],
            ProducerConfig.TRANSACTIONAL_ID_CONFIG, arguments[1],
            ProducerConfig.LINGER_MS_CONFIG, 0
        );
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (var producer = new KafkaProducer<>(options, new StringSerializer(), new StringSerializer())) {
            answer(producer, "init");
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                answer(producer, line.split(" "));
            }
        }
    }

    private static void answer(KafkaProducer<String, String> producer, String... words) {
        String answer = "ok";
        try {
            call(producer, words);
        } catch (ExecutionException error) {
            answer = error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            answer = error.getClass().getSimpleName();
        }
        System.out.println("> " + answer);
    }

    private static void call(KafkaProducer<String, String> producer, String... words) throws Exception {
        switch (words[0]) {
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(words[1], Integer.valueOf(words[2]), null, words[3])).get();
            case "offsets" -> producer.sendOffsetsToTransaction(
                Map.of(
                    new TopicPartition(words[2], Integer.parseInt(words[3])),
                    new OffsetAndMetadata(Long.parseLong(words[4]))
                ),
                new ConsumerGroupMetadata(words[1])
            );
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> throw new IllegalArgumentException(words[0]);
        }
    }
}
