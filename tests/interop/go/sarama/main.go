// sarama with TLS and a login.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"hash"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	"example.org/secured/options"
)

// login is sarama's interface to SCRAM, which it leaves to the application.
type login struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (l *login) Begin(user, password, authzID string) error {
	client, err := l.hash.NewClient(user, password, authzID)
	if err == nil {
		l.conversation = client.NewConversation()
	}
	return err
}

func (l *login) Step(challenge string) (string, error) { return l.conversation.Step(challenge) }

func (l *login) Done() bool { return l.conversation.Done() }

type reader struct{ values chan string }

func (reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		r.values <- string(message.Value)
		return nil
	}
	return nil
}

func run(ctx context.Context, o options.Options, secured *tls.Config) (string, error) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Net.TLS.Enable, config.Net.TLS.Config = true, secured
	config.Producer.Return.Successes = true
	config.Producer.Retry.Max = 3
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if o.Mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(o.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = o.User, o.Password
		hashes := map[string]scram.HashGeneratorFcn{
			"SCRAM-SHA-256": func() hash.Hash { return sha256.New() },
			"SCRAM-SHA-512": func() hash.Hash { return sha512.New() },
		}
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			return &login{hash: hashes[o.Mechanism]}
		}
	}
	client, err := sarama.NewClient([]string{o.Server}, config)
	if err != nil {
		return "", err
	}
	defer client.Close()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return "", err
	}
	defer producer.Close()
	message := &sarama.ProducerMessage{Topic: o.Topic, Value: sarama.StringEncoder(options.Value)}
	if _, _, err := producer.SendMessage(message); err != nil {
		return "", err
	}
	group, err := sarama.NewConsumerGroupFromClient(o.Group, client)
	if err != nil {
		return "", err
	}
	defer group.Close()
	found := reader{values: make(chan string, 1)}
	failed := make(chan error, 1)
	go func() { failed <- group.Consume(ctx, []string{o.Topic}, found) }()
	select {
	case value := <-found.values:
		return value, nil
	case err := <-failed:
		return "", err
	}
}

func main() { options.Run(run) }
