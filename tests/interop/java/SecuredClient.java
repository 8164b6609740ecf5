import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's Java clients with TLS and a login: writes a record to a topic and reads it in a group, as the programs in
 * ../go do. The only argument has options as JSON; it prints "read LENGTH", or an error with its causes and ends with
 * status 1.
 */
public class SecuredClient {
    private static final String VALUE = "v".repeat(100_000);

    public static void main(String[] arguments) throws Exception {
        JsonNode given = new ObjectMapper().readTree(arguments[0]);
        try {
            System.out.println("read " + run(options(given), given.path("topic").asText(), given.path("group").asText()));
        } catch (Exception error) {
            System.out.print("error:");
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                System.out.print(" " + cause);
            }
            System.exit(1);
        }
    }

    private static Map<String, Object> options(JsonNode given) {
        Map<String, Object> options = new HashMap<>();
        options.put("bootstrap.servers", given.path("server").asText());
        options.put("ssl.truststore.type", "PEM");
        options.put("ssl.truststore.certificates", given.path("authority").asText());
        String mechanism = given.path("mechanism").asText();
        if (mechanism.isEmpty()) {
            options.put("security.protocol", "SSL");
            options.put("ssl.keystore.type", "PEM");
            options.put("ssl.keystore.certificate.chain", given.path("certificate").asText());
            options.put("ssl.keystore.key", given.path("key").asText());
        } else {
            options.put("security.protocol", "SASL_SSL");
            options.put("sasl.mechanism", mechanism);
            options.put("sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.%sLoginModule required username=\"%s\" password=\"%s\";",
                mechanism.equals("PLAIN") ? "plain.Plain" : "scram.Scram",
                given.path("user").asText(),
                given.path("password").asText()
            ));
        }
        return options;
    }

    private static int run(Map<String, Object> options, String topic, String group) throws Exception {
        try (var producer = new KafkaProducer<>(options, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, VALUE)).get();
        }
        options.put("group.id", group);
        options.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (true) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    return record.value().length();
                }
            }
        }
    }
}
