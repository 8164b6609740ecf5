import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Runs Kafka's server-side assignors: a case per line of standard input as JSON, the same line with what came out of
 * it on standard output.
 *
 * Members, their topics and what they have are given to the assignors in the order of the input. Where an assignor
 * makes a HashSet of topics of its own, "order" says in which order that one is gone through.
 */
public class ServerAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode given = (ObjectNode) JSON.readTree(line);
            assign(given);
            System.out.println(JSON.writeValueAsString(given));
        }
    }

    private static Uuid topic(String text) {
        UUID id = UUID.fromString(text);
        return new Uuid(id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    private static String text(Uuid topic) {
        return new UUID(topic.getMostSignificantBits(), topic.getLeastSignificantBits()).toString();
    }

    private static void assign(ObjectNode given) {
        Map<Uuid, Integer> counts = new LinkedHashMap<>();
        given.get("partitions").fields().forEachRemaining(one -> counts.put(topic(one.getKey()), one.getValue().asInt()));

        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        for (JsonNode member : given.get("members")) {
            String id = member.get("id").asText();
            Set<Uuid> topics = new LinkedHashSet<>();
            member.get("topics").forEach(name -> topics.add(topic(name.asText())));
            subscriptions.add(topics);
            Map<Uuid, Set<Integer>> assigned = new LinkedHashMap<>();
            member.get("assigned").fields().forEachRemaining(one -> {
                Set<Integer> numbers = new TreeSet<>();
                one.getValue().forEach(number -> {
                    numbers.add(number.asInt());
                    owners.computeIfAbsent(topic(one.getKey()), __ -> new HashMap<>()).put(number.asInt(), id);
                });
                assigned.put(topic(one.getKey()), numbers);
            });
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.ofNullable(member.get("rack_id").textValue()),
                Optional.ofNullable(member.get("instance_id").textValue()),
                topics,
                new Assignment(assigned)
            ));
        }

        SubscriptionType type =
            subscriptions.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        ConsumerGroupPartitionAssignor assignor =
            given.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        GroupAssignment result = assignor.assign(
            new GroupSpecImpl(Collections.unmodifiableMap(members), type, owners),
            new Topics(counts)
        );

        ArrayNode order = given.putArray("order");
        new HashSet<>(counts.keySet()).forEach(one -> order.add(text(one)));
        ObjectNode assignments = given.putObject("result");
        new TreeMap<>(result.members()).forEach((id, assignment) -> {
            ObjectNode mine = assignments.putObject(id);
            Map<String, Set<Integer>> sorted = new TreeMap<>();
            assignment.partitions().forEach((one, numbers) -> sorted.put(text(one), new TreeSet<>(numbers)));
            sorted.forEach((one, numbers) -> {
                ArrayNode list = mine.putArray(one);
                numbers.forEach(list::add);
            });
        });
    }

    private record Topics(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topic) {
            return counts.getOrDefault(topic, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of("rack-" + partition % 3);
        }
    }
}
