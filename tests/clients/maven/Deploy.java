package transfer;

import java.io.File;
import org.apache.maven.RepositoryUtils;
import org.apache.maven.plugin.AbstractMojo;
import org.apache.maven.plugin.MojoExecutionException;
import org.apache.maven.project.MavenProject;
import org.eclipse.aether.RepositorySystem;
import org.eclipse.aether.RepositorySystemSession;
import org.eclipse.aether.artifact.DefaultArtifact;
import org.eclipse.aether.deployment.DeployRequest;
import org.eclipse.aether.deployment.DeploymentException;

/** Deploys a file and the POM of a project, with the calls of the deploy plugin of Maven. */
public class Deploy extends AbstractMojo {
    private MavenProject project;
    private RepositorySystemSession session;
    private RepositorySystem system;
    private File file;

    @Override
    public void execute() throws MojoExecutionException {
        DeployRequest request = new DeployRequest();
        request.setRepository(RepositoryUtils.toRepo(project.getDistributionManagementArtifactRepository()));
        request.addArtifact(artifact("", "jar", file));
        request.addArtifact(artifact("sources", "jar", file));
        request.addArtifact(artifact("", "pom", project.getFile()));
        try {
            system.deploy(session, request);
        } catch (DeploymentException exception) {
            throw new MojoExecutionException(exception.getMessage(), exception);
        }
    }

    private DefaultArtifact artifact(String classifier, String extension, File content) {
        return new DefaultArtifact(project.getGroupId(), project.getArtifactId(), classifier, extension,
            project.getVersion(), null, content);
    }
}
