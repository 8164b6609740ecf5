import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Makes names as Kafka makes those of principals: a case per line of standard input as JSON, the same line with the
 * name on standard output.
 *
 * A case of kind "name" has the DER bytes of a distinguished name, one of kind "rule" has rules and a subject, and one of
 * kind "pattern" has a pattern and a text, whose name are the groups if the whole text matches, and the text with its
 * matches in brackets. The name is null if no rule applies; "error" is the class of any other exception.
 */
public class PrincipalNames {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode given = (ObjectNode) JSON.readTree(line);
            try {
                given.put("name", name(given));
            } catch (SslPrincipalMapper.NoMatchingRule none) {
                given.putNull("name");
            } catch (Exception error) {
                given.put("error", error.getClass().getName());
            }
            out.println(JSON.writeValueAsString(given));
        }
        out.flush();
    }

    private static String name(ObjectNode given) throws Exception {
        if (given.get("kind").asText().equals("pattern")) {
            Matcher matcher = Pattern.compile(given.get("pattern").asText()).matcher(given.get("text").asText());
            StringBuilder name = new StringBuilder();
            if (matcher.matches()) {
                for (int group = 0; group <= matcher.groupCount(); group++) {
                    name.append(matcher.group(group)).append("|");
                }
            }
            return name + matcher.replaceAll("<$0>");
        }
        if (given.get("kind").asText().equals("name")) {
            return new X500Principal(HexFormat.of().parseHex(given.get("der").asText())).getName();
        }
        return SslPrincipalMapper.fromRules(given.get("rules").asText()).getName(given.get("subject").asText());
    }
}
