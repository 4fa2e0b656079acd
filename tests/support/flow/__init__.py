"""Parts of the flow between fakes: several workers, the overflow routine, an observer."""
