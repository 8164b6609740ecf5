import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MeasurableStat;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaUtils;

/**
 * Applies Kafka's quotas: a case per line of standard input as JSON, the same line with the throttle times on standard
 * output.
 *
 * A case has the number and the length of samples, a quota, whether it is a rate or a bucket, and values with the
 * times at which they are recorded. The result has a throttle time for each value. As in ClientQuotaManager, a negative
 * value takes an earlier one back, and has no throttle time.
 */
public class QuotaFormulas {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode given = (ObjectNode) JSON.readTree(line);
            try (Metrics metrics = new Metrics()) {
                record(metrics, given);
            }
            System.out.println(JSON.writeValueAsString(given));
        }
    }

    private static void record(Metrics metrics, ObjectNode given) {
        boolean isRate = given.get("kind").asText().equals("rate");
        MetricConfig config = new MetricConfig()
            .timeWindow(given.get("sample_ms").asLong(), TimeUnit.MILLISECONDS)
            .samples(given.get("samples").asInt())
            .quota(new Quota(given.get("quota").asDouble(), true));
        MeasurableStat stat = isRate ? new Rate() : new TokenBucket();
        Sensor sensor = metrics.sensor("quota", config, Long.MAX_VALUE, Sensor.RecordingLevel.INFO);
        sensor.add(metrics.metricName("quota", "quotas"), stat);
        ArrayNode throttled = given.putArray("throttle_ms");
        for (JsonNode step : given.get("steps")) {
            long now = step.get(0).asLong();
            double value = step.get(1).asDouble();
            try {
                sensor.record(value, now, value >= 0);
                throttled.add(0);
            } catch (QuotaViolationException error) {
                throttled.add(
                    isRate
                        ? QuotaUtils.throttleTime(error, now)
                        : ControllerMutationQuotaManager.throttleTimeMs(error)
                );
            }
        }
    }
}
