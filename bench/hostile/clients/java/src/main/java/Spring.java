import static java.nio.charset.StandardCharsets.UTF_8;

import java.net.URI;
import org.springframework.amqp.core.MessagePostProcessor;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.support.postprocessor.DeflaterPostProcessor;
import org.springframework.amqp.support.postprocessor.GZipPostProcessor;

/** Publish events as Spring AMQP does, two of them compressed. Arguments: the broker's URL. */
public class Spring {
    public static void main(String[] arguments) {
        var connections = new CachingConnectionFactory(URI.create(arguments[0]));
        connections.setPublisherConfirmType(CachingConnectionFactory.ConfirmType.SIMPLE);
        publish(connections, "text", "acme");
        publish(connections, "bytes", "acme".getBytes(UTF_8));
        publish(connections, "gzip", "acme", new GZipPostProcessor());
        publish(connections, "deflate", "acme", new DeflaterPostProcessor());
        connections.destroy();
    }

    private static void publish(
            CachingConnectionFactory connections, String form, Object tenant, MessagePostProcessor... compressors) {
        var template = new RabbitTemplate(connections);
        if (compressors.length > 0) {
            template.setBeforePublishPostProcessors(compressors);
        }
        var body = "{\"client\":\"spring\",\"form\":\"%s\"}".formatted(form);
        template.invoke(operations -> {
            operations.convertAndSend("leveret.events", "order.created", body, message -> {
                var properties = message.getMessageProperties();
                properties.setContentType("application/json");
                properties.setMessageId("spring_" + form);
                properties.setHeader("tenant", tenant);
                properties.setHeader("region", tenant instanceof byte[] ? "eu".getBytes(UTF_8) : "eu");
                return message;
            });
            operations.waitForConfirmsOrDie(10_000);
            return null;
        });
    }
}
