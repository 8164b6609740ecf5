import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

/**
 * Reads `sasl.jaas.config` as Kafka's clients do: a case per line of standard input as JSON with a "text", the same line
 * with the module and its options on standard output, or with the class of the exception as "error".
 */
public class JaasConfigs {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode given = (ObjectNode) JSON.readTree(line);
            try {
                Password text = new Password(given.get("text").asText());
                JaasContext context = JaasContext.loadClientContext(Map.of(SaslConfigs.SASL_JAAS_CONFIG, text));
                AppConfigurationEntry entry = context.configurationEntries().get(0);
                given.put("module", entry.getLoginModuleName());
                ObjectNode options = given.putObject("options");
                entry.getOptions().forEach((name, value) -> options.put(String.valueOf(name), String.valueOf(value)));
            } catch (Exception error) {
                given.put("error", error.getClass().getName());
            }
            out.println(JSON.writeValueAsString(given));
        }
        out.flush();
    }
}
