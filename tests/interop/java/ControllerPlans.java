package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.AlterPartitionReassignmentsRequestData;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.ElectLeadersRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.metadata.BrokerRegistrationChangeRecord;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metadata.UnregisterBrokerRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.BrokerHeartbeatReply;
import org.apache.kafka.metadata.BrokerRegistrationReply;
import org.apache.kafka.metadata.FinalizedControllerFeatures;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Decides with the parts of Kafka's controller: a command per line of standard input, its result as a line of standard
 * output. Fields have tabs between them; messages and records are bytes in hexadecimal.
 *
 * change LEVEL MIN_ISR ELR ELECTION RECORD ISR REPLICAS REMOVING ADDING RECOVERY UNCLEAN ACCEPTABLE BROKER DIRECTORY
 *     the record by which PartitionChangeBuilder changes a partition, or "-"
 * place SEED PARTITIONS REPLICATION_FACTOR BROKER...
 *     the placement by StripedReplicaPlacer, or "error" and a message
 * new CLUSTER_ID SESSION_MS RECORD...
 *     a new cluster, to which all later commands belong
 * replay RECORD... | time MS | register VERSION REQUEST | heartbeat REQUEST | expire | alter VERSION REQUEST
 * | elect REQUEST | reassign REQUEST | unregister BROKER | balance | unclean | assign REQUEST
 *     "ok", the response and the records, which are then replayed; or "error" and a code
 *
 * It is in this package because these parts are private to it.
 */
public class ControllerPlans {
    private static final HexFormat HEX = HexFormat.of();
    private static final MetadataRecordSerde SERDE = new MetadataRecordSerde();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder results = new StringBuilder("results:\n");
        Cluster cluster = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split("\t", -1);
            if (fields[0].equals("new")) cluster = new Cluster(fields[1], Long.parseLong(fields[2]));
            results.append(answer(cluster, fields)).append('\n');
        }
        System.out.print(results);
    }

    private static String answer(Cluster cluster, String[] fields) {
        try {
            return switch (fields[0]) {
                case "change" -> change(fields);
                case "place" -> place(fields);
                case "new" -> cluster.replay(fields, 3);
                default -> cluster.carryOut(fields);
            };
        } catch (ApiException error) {
            return "error\t" + Errors.forException(error).code();
        } catch (RuntimeException error) {
            return "broken\t" + error;
        }
    }

    private static List<Integer> numbers(String text) {
        List<Integer> result = new ArrayList<>();
        for (String one : text.split(",")) {
            if (!one.isEmpty()) result.add(Integer.parseInt(one));
        }
        return result;
    }

    private static ApiMessageAndVersion record(String hex) {
        byte[] bytes = HEX.parseHex(hex);
        return SERDE.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), bytes.length);
    }

    private static String hex(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(SERDE.recordSize(record, cache));
        SERDE.write(record, cache, new ByteBufferAccessor(buffer));
        return HEX.formatHex(buffer.array());
    }

    private static String hex(Message message, int version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, (short) version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HEX.formatHex(bytes);
    }

    private static ByteBufferAccessor accessor(String hex) {
        return new ByteBufferAccessor(ByteBuffer.wrap(HEX.parseHex(hex)));
    }

    private static String change(String[] fields) {
        PartitionRecord record = (PartitionRecord) record(fields[5]).message();
        Set<Integer> acceptable = Set.copyOf(numbers(fields[12]));
        PartitionChangeBuilder builder = new PartitionChangeBuilder(
            new PartitionRegistration(record),
            record.topicId(),
            record.partitionId(),
            acceptable::contains,
            MetadataVersion.fromFeatureLevel(Short.parseShort(fields[1])),
            Integer.parseInt(fields[2]),
            fields[3].equals("1")
        )
            .setElection(PartitionChangeBuilder.Election.valueOf(fields[4]))
            .setTargetIsr(numbers(fields[6]))
            .setTargetReplicas(numbers(fields[7]))
            .setTargetRemoving(numbers(fields[8]))
            .setTargetAdding(numbers(fields[9]))
            .setTargetLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(fields[10])))
            .setUncleanShutdownReplicas(numbers(fields[11]))
            .setDefaultDirProvider(broker -> new Uuid(7, broker));
        if (!fields[13].isEmpty()) {
            builder.setDirectory(Integer.parseInt(fields[13]), new Uuid(8, Long.parseLong(fields[14])));
        }
        return builder.build().map(ControllerPlans::hex).orElse("-");
    }

    private static String place(String[] fields) {
        List<UsableBroker> brokers = new ArrayList<>();
        for (int index = 4; index < fields.length; index++) {
            String[] broker = fields[index].split(":", -1);
            Optional<String> rack = broker[1].isEmpty() ? Optional.empty() : Optional.of(broker[1]);
            brokers.add(new UsableBroker(Integer.parseInt(broker[0]), rack, broker[2].equals("1")));
        }
        ClusterDescriber describer = new ClusterDescriber() {
            @Override
            public Iterator<UsableBroker> usableBrokers() {
                return brokers.iterator();
            }

            @Override
            public Uuid defaultDir(int broker) {
                return Uuid.ZERO_UUID;
            }
        };
        PlacementSpec wanted = new PlacementSpec(0, Integer.parseInt(fields[2]), Short.parseShort(fields[3]));
        try {
            return new StripedReplicaPlacer(new Random(Long.parseLong(fields[1]))).place(wanted, describer)
                .assignments().stream()
                .map(one -> one.replicas().stream().map(String::valueOf).collect(Collectors.joining(",")))
                .collect(Collectors.joining("\t"));
        } catch (ApiException error) {
            return "error\t" + error.getMessage();
        }
    }

    /** A clock that stands still. */
    private static class HeldTime implements Time {
        long now = 1_000_000;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return TimeUnit.MILLISECONDS.toNanos(now);
        }

        @Override
        public void sleep(long milliseconds) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object lock, Supplier<Boolean> condition, long deadline) {
            throw new UnsupportedOperationException();
        }
    }

    /** The managers of a controller, without its event queue and its log. */
    private static class Cluster {
        private final HeldTime time = new HeldTime();
        private final FeatureControlManager features;
        private final ConfigurationControlManager configs;
        private final ClusterControlManager brokers;
        private final ReplicationControlManager partitions;
        private long nextOffset = 0;

        Cluster(String clusterId, long sessionMs) {
            LogContext context = new LogContext();
            SnapshotRegistry snapshots = new SnapshotRegistry(context);
            features = new FeatureControlManager.Builder()
                .setSnapshotRegistry(snapshots)
                .setQuorumFeatures(
                    new QuorumFeatures(0, QuorumFeatures.defaultSupportedFeatureMap(true), List.of(0))
                )
                .build();
            configs = new ConfigurationControlManager.Builder()
                .setSnapshotRegistry(snapshots)
                .setFeatureControl(features)
                .setKafkaConfigSchema(kafka.server.KafkaRaftServer.configSchema())
                .build();
            ReplicationControlManager[] made = new ReplicationControlManager[1];
            brokers = new ClusterControlManager.Builder()
                .setClusterId(clusterId)
                .setTime(time)
                .setSnapshotRegistry(snapshots)
                .setSessionTimeoutNs(TimeUnit.MILLISECONDS.toNanos(sessionMs))
                .setFeatureControlManager(features)
                .setBrokerShutdownHandler((id, clean, records) -> made[0].handleBrokerShutdown(id, clean, records))
                .build();
            partitions = new ReplicationControlManager.Builder()
                .setSnapshotRegistry(snapshots)
                .setConfigurationControl(configs)
                .setClusterControl(brokers)
                .setFeatureControl(features)
                .build();
            made[0] = partitions;
            brokers.activate();
        }

        String carryOut(String[] fields) {
            return switch (fields[0]) {
                case "replay" -> replay(fields, 1);
                case "time" -> {
                    time.now += Long.parseLong(fields[1]);
                    yield "ok";
                }
                case "register" -> register(Short.parseShort(fields[1]), fields[2]);
                case "heartbeat" -> heartbeat(fields[1]);
                case "expire" -> expire();
                case "alter" -> {
                    short version = Short.parseShort(fields[1]);
                    var result = partitions.alterPartition(
                        context(version), new AlterPartitionRequestData(accessor(fields[2]), version)
                    );
                    yield finish(result, hex(result.response(), version));
                }
                case "elect" -> {
                    short version = 2;
                    var result = partitions.electLeaders(new ElectLeadersRequestData(accessor(fields[1]), version));
                    yield finish(result, hex(result.response(), version));
                }
                case "reassign" -> {
                    short version = 1;
                    var result = partitions.alterPartitionReassignments(
                        new AlterPartitionReassignmentsRequestData(accessor(fields[1]), version)
                    );
                    yield finish(result, hex(result.response(), version));
                }
                case "unregister" -> finish(partitions.unregisterBroker(Integer.parseInt(fields[1])), "");
                case "balance" -> finish(partitions.maybeBalancePartitionLeaders(), "");
                case "unclean" -> finish(partitions.maybeElectUncleanLeaders(), "");
                case "assign" -> {
                    short version = 0;
                    var result = partitions.handleAssignReplicasToDirs(
                        new AssignReplicasToDirsRequestData(accessor(fields[1]), version)
                    );
                    yield finish(result, hex(result.response(), version));
                }
                default -> throw new IllegalArgumentException(fields[0]);
            };
        }

        private ControllerRequestContext context(short version) {
            RequestHeaderData header = new RequestHeaderData().setRequestApiVersion(version);
            return new ControllerRequestContext(header, KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
        }

        private String register(short version, String request) {
            Map<String, Short> finalized = new HashMap<>(features.finalizedFeatures(Long.MAX_VALUE).featureMap());
            finalized.put("kraft.version", (short) 0);
            ControllerResult<BrokerRegistrationReply> result = brokers.registerBroker(
                new BrokerRegistrationRequestData(accessor(request), version),
                nextOffset,
                new FinalizedControllerFeatures(finalized, Long.MAX_VALUE),
                version >= 3
            );
            return finish(result, String.valueOf(result.response().epoch()));
        }

        private String expire() {
            List<String> records = new ArrayList<>();
            while (true) {
                ControllerResult<Boolean> result = partitions.maybeFenceOneStaleBroker();
                result.records().forEach(record -> records.add(hex(record)));
                result.records().forEach(record -> replay(record.message()));
                if (!result.response()) return "ok\t\t" + String.join(",", records);
            }
        }

        private String heartbeat(String request) {
            BrokerHeartbeatRequestData beat = new BrokerHeartbeatRequestData(accessor(request), (short) 2);
            brokers.trackBrokerHeartbeat(beat.brokerId(), beat.brokerEpoch());
            OptionalLong registered = brokers.registerBrokerRecordOffset(beat.brokerId());
            if (registered.isEmpty()) return "error\t" + Errors.STALE_BROKER_EPOCH.code();
            ControllerResult<BrokerHeartbeatReply> result =
                partitions.processBrokerHeartbeat(beat, registered.getAsLong());
            BrokerHeartbeatReply reply = result.response();
            String answer = finish(result, reply.isCaughtUp() + "," + reply.isFenced() + "," + reply.shouldShutDown());
            if (reply.inControlledShutdown()) {
                brokers.heartbeatManager().maybeUpdateControlledShutdownOffset(beat.brokerId(), nextOffset - 1);
            }
            return answer;
        }

        private String finish(ControllerResult<?> result, String response) {
            String records = result.records().stream().map(ControllerPlans::hex).collect(Collectors.joining(","));
            result.records().forEach(record -> replay(record.message()));
            return "ok\t" + response + "\t" + records;
        }

        String replay(String[] fields, int first) {
            Arrays.stream(fields, first, fields.length).forEach(field -> replay(record(field).message()));
            return "ok";
        }

        private void replay(ApiMessage message) {
            if (message instanceof RegisterBrokerRecord record) brokers.replay(record, nextOffset);
            else if (message instanceof BrokerRegistrationChangeRecord record) brokers.replay(record);
            else if (message instanceof UnregisterBrokerRecord record) brokers.replay(record);
            else if (message instanceof TopicRecord record) partitions.replay(record);
            else if (message instanceof PartitionRecord record) partitions.replay(record);
            else if (message instanceof PartitionChangeRecord record) partitions.replay(record);
            else if (message instanceof RemoveTopicRecord record) partitions.replay(record);
            else if (message instanceof ConfigRecord record) configs.replay(record);
            else if (message instanceof FeatureLevelRecord record) features.replay(record);
            else throw new IllegalArgumentException(message.toString());
            nextOffset++;
        }
    }
}
