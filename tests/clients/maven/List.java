package transfer;

import org.apache.maven.artifact.Artifact;
import org.apache.maven.plugin.AbstractMojo;
import org.apache.maven.project.MavenProject;

/** Prints the resolved dependencies of a project and their files. */
public class List extends AbstractMojo {
    private MavenProject project;

    @Override
    public void execute() {
        for (Artifact artifact : project.getArtifacts()) {
            System.out.println("resolved " + artifact.getArtifactId() + " " + artifact.getBaseVersion() + " " + artifact.getFile());
        }
    }
}
