// kafka-go with TLS and a login.
package main

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"example.org/secured/options"
)

func mechanism(o options.Options) (sasl.Mechanism, error) {
	switch o.Mechanism {
	case "":
		return nil, nil
	case "PLAIN":
		return plain.Mechanism{Username: o.User, Password: o.Password}, nil
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, o.User, o.Password)
	default:
		return scram.Mechanism(scram.SHA512, o.User, o.Password)
	}
}

func run(ctx context.Context, o options.Options, config *tls.Config) (string, error) {
	login, err := mechanism(o)
	if err != nil {
		return "", err
	}
	writer := &kafka.Writer{
		Addr:         kafka.TCP(o.Server),
		Topic:        o.Topic,
		BatchTimeout: 10 * time.Millisecond,
		MaxAttempts:  3,
		RequiredAcks: kafka.RequireAll,
		Transport:    &kafka.Transport{TLS: config, SASL: login},
	}
	defer writer.Close()
	if err := writer.WriteMessages(ctx, kafka.Message{Value: []byte(options.Value)}); err != nil {
		return "", err
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:     []string{o.Server},
		GroupID:     o.Group,
		Topic:       o.Topic,
		StartOffset: kafka.FirstOffset,
		Dialer:      &kafka.Dialer{Timeout: 10 * time.Second, TLS: config, SASLMechanism: login},
	})
	defer reader.Close()
	message, err := reader.ReadMessage(ctx)
	return string(message.Value), err
}

func main() { options.Run(run) }
