import { offerEngine } from "./shared-engine.ts"

/** Starting an engine takes three seconds of both cores: once a run, not once a file. */
export default offerEngine
