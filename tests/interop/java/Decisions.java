import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Decides with Kafka's StandardAuthorizer. Standard input has lines of fields, with tabs between them:
 *
 * acl TYPE PATTERN NAME PRINCIPAL HOST OPERATION PERMISSION   an ACL of the next authorizer
 * authorizer SUPER_USERS DEFAULT                              a new authorizer with these ACLs
 * decide PRINCIPAL HOST OPERATION TYPE NAME                   may it? prints 1 or 0
 * any PRINCIPAL HOST OPERATION TYPE                           may it on any resource of the type?
 *
 * Types, operations and permissions are Kafka's numbers. The results of an authorizer are one line.
 */
public class Decisions {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        StandardAuthorizer authorizer = null;
        StringBuilder results = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            switch (fields[0]) {
                case "acl" -> acls.put(Uuid.randomUuid(), acl(fields));
                case "authorizer" -> {
                    if (authorizer != null) results.append('\n');
                    authorizer = authorizer(acls, fields[1], fields[2]);
                    acls = new HashMap<>();
                }
                case "decide" -> {
                    ResourcePattern resource = new ResourcePattern(type(fields[4]), fields[5], PatternType.LITERAL);
                    Action action = new Action(operation(fields[3]), resource, 1, true, true);
                    Client client = new Client(fields[1], fields[2]);
                    results.append(digit(authorizer.authorize(client, List.of(action)).get(0)));
                }
                case "any" -> {
                    Client client = new Client(fields[1], fields[2]);
                    results.append(digit(
                        authorizer.authorizeByResourceType(client, operation(fields[3]), type(fields[4]))
                    ));
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        System.out.println("decisions:");
        System.out.println(results);
    }

    private static StandardAuthorizer authorizer(Map<Uuid, StandardAcl> acls, String superUsers, String allowed) {
        StandardAuthorizer made = new StandardAuthorizer();
        made.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        made.configure(Map.of("super.users", superUsers, "allow.everyone.if.no.acl.found", allowed));
        made.loadSnapshot(acls);
        made.completeInitialLoad();
        return made;
    }

    private static StandardAcl acl(String[] fields) {
        return new StandardAcl(
            type(fields[1]),
            fields[3],
            PatternType.fromCode(Byte.parseByte(fields[2])),
            fields[4],
            fields[5],
            operation(fields[6]),
            AclPermissionType.fromCode(Byte.parseByte(fields[7]))
        );
    }

    private static ResourceType type(String code) {
        return ResourceType.fromCode(Byte.parseByte(code));
    }

    private static AclOperation operation(String code) {
        return AclOperation.fromCode(Byte.parseByte(code));
    }

    private static char digit(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED ? '1' : '0';
    }

    private record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        Client(String name, String address) throws Exception {
            this(new KafkaPrincipal(KafkaPrincipal.USER_TYPE, name), InetAddress.getByName(address));
        }

        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
