import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;

/**
 * Runs Kafka's validators of OAUTHBEARER: a token per line of standard input as JSON, the user and the expiry on standard
 * output, or null if it is refused. A token with "keys" is signed by one of the keys in that file.
 */
public class TokenValidators {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String ALLOWED_FILES = "org.apache.kafka.sasl.oauthbearer.allowed.files";
    private static final String ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls";

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode given = JSON.readTree(line);
            ObjectNode result = JSON.createObjectNode();
            try {
                OAuthBearerToken token = given.has("keys") ? signed(given) : unsecured(given);
                if (token != null) {
                    result.put("user", token.principalName()).put("expires_ms", token.lifetimeMs());
                }
            } catch (Exception refused) {
                result.put("reason", String.valueOf(refused.getMessage()));
            }
            System.out.println("{\"result\":" + result + "}");
        }
    }

    private static OAuthBearerToken signed(JsonNode given) throws Exception {
        String path = given.get("keys").asText();
        System.setProperty(ALLOWED_FILES, path);
        System.setProperty(ALLOWED_URLS, "file://" + path);
        Map<String, Object> configs = new HashMap<>();
        List<String> audiences = new ArrayList<>();
        given.get("audiences").forEach(each -> audiences.add(each.asText()));
        configs.put("sasl.oauthbearer.jwks.endpoint.url", "file://" + path);
        configs.put("sasl.oauthbearer.expected.audience", audiences);
        configs.put("sasl.oauthbearer.clock.skew.seconds", 30);
        configs.put("sasl.oauthbearer.scope.claim.name", "scope");
        configs.put("sasl.oauthbearer.sub.claim.name", "sub");
        if (given.has("issuer")) {
            configs.put("sasl.oauthbearer.expected.issuer", given.get("issuer").asText());
        }
        BrokerJwtValidator validator = new BrokerJwtValidator();
        validator.configure(configs, "OAUTHBEARER", module(Map.of()));
        return validator.validate(given.get("token").asText());
    }

    private static OAuthBearerToken unsecured(JsonNode given) throws Exception {
        OAuthBearerUnsecuredValidatorCallbackHandler handler = new OAuthBearerUnsecuredValidatorCallbackHandler();
        Map<String, String> options = new HashMap<>();
        if (given.has("scope")) {
            options.put("unsecuredValidatorRequiredScope", given.get("scope").asText());
        }
        handler.configure(Map.of(), "OAUTHBEARER", module(options));
        OAuthBearerValidatorCallback callback = new OAuthBearerValidatorCallback(given.get("token").asText());
        handler.handle(new Callback[] {callback});
        return callback.token();
    }

    private static List<AppConfigurationEntry> module(Map<String, String> options) {
        return List.of(
            new AppConfigurationEntry("module", AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options)
        );
    }
}
