"""A gate's result in the formats that people and CI systems read. Each module owns one."""
