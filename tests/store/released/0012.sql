BEGIN TRANSACTION;
CREATE TABLE application_versions (
	id INTEGER NOT NULL, 
	application_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	document JSON NOT NULL, 
	created DOUBLE NOT NULL, 
	CONSTRAINT pk_application_versions PRIMARY KEY (id), 
	CONSTRAINT fk_application_versions_application_id FOREIGN KEY(application_id) REFERENCES applications (id) ON DELETE CASCADE, 
	CONSTRAINT uq_application_versions_application_id_number UNIQUE (application_id, number)
);
INSERT INTO "application_versions" VALUES(1,1,1,'{}',1.0);
INSERT INTO "application_versions" VALUES(2,1,2,'{"name": "clicks", "operator": [{"name": "parse", "service_rate": 500, "scv": 0.5}]}',2.0);
INSERT INTO "application_versions" VALUES(3,2,1,'{"name": "clicks", "operator": [{"name": "parse", "service_rate": 500, "scv": 0.5}]}',30.0);
CREATE TABLE applications (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	created DOUBLE NOT NULL, last_run INTEGER, last_trial INTEGER, 
	CONSTRAINT pk_applications PRIMARY KEY (id), 
	CONSTRAINT uq_applications_name UNIQUE (name)
);
INSERT INTO "applications" VALUES(1,'clicks',1.0,1,2);
INSERT INTO "applications" VALUES(2,'ads',30.0,1,1);
CREATE TABLE controls (
	id INTEGER NOT NULL, 
	application TEXT NOT NULL, 
	operator TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	settings JSON NOT NULL, 
	who TEXT NOT NULL, 
	note TEXT NOT NULL, 
	since DOUBLE NOT NULL, 
	until DOUBLE, 
	ended DOUBLE, 
	ended_by TEXT, 
	CONSTRAINT pk_controls PRIMARY KEY (id)
);
INSERT INTO "controls" VALUES(1,'clicks','','direction_lock','{"only": "out"}','somebody','',12.0,99.0,NULL,NULL);
CREATE TABLE decisions (
	application TEXT NOT NULL, 
	operator TEXT NOT NULL, 
	time DOUBLE NOT NULL, 
	kind TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	action TEXT, 
	objective_version INTEGER, 
	seen JSON NOT NULL, 
	alternatives JSON NOT NULL, rate DOUBLE, response DOUBLE, bound DOUBLE, price DOUBLE, shadow JSON, code TEXT, proposed JSON, objections JSON, instance TEXT, corrections INTEGER, sequence BIGINT, 
	CONSTRAINT pk_decisions PRIMARY KEY (application, operator, time)
)
 WITHOUT ROWID

;
INSERT INTO "decisions" VALUES('clicks','parse',60.0,'HELD','no metrics',NULL,NULL,'{"response": "Infinity"}','{}',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "decisions" VALUES('clicks','parse',120.0,'SCALED','it was time',NULL,NULL,'{}','{}',5.0,0.5,0.01,1.5,'{"version": 2, "action": "+1 large"}',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "decisions" VALUES('clicks','parse',180.0,'BLOCKED','it was too early',NULL,NULL,'{"utilisation": null, "completeness": null, "deployment": {}}','{}',NULL,NULL,NULL,NULL,NULL,'cooldown','{"large": -1}','[{"source": "guard", "code": "cooldown", "message": "the last change was 60 s ago, and in_s is 600", "data": {"value": "Infinity"}}]',NULL,NULL,NULL);
INSERT INTO "decisions" VALUES('clicks','parse',240.0,'ACTUATION_FAILED','no worker',NULL,NULL,'{}','{}',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'driver-1',1,NULL);
INSERT INTO "decisions" VALUES('clicks','parse',300.0,'HELD','no metrics',NULL,NULL,'{}','{}',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'driver-1',NULL,1099511627776);
CREATE TABLE epochs (
	number INTEGER NOT NULL, 
	began DOUBLE NOT NULL, 
	who TEXT NOT NULL, 
	source TEXT NOT NULL, 
	copied DOUBLE NOT NULL, 
	versions JSON NOT NULL, 
	revisions JSON NOT NULL, 
	CONSTRAINT pk_epochs PRIMARY KEY (number)
);
INSERT INTO "epochs" VALUES(1,21.0,'somebody','/backups/monday.db',20.0,'{"clicks": 1}','{"clicks": 1}');
CREATE TABLE events (
	id INTEGER NOT NULL, 
	application TEXT NOT NULL, 
	time DOUBLE NOT NULL, 
	who TEXT NOT NULL, 
	what TEXT NOT NULL, 
	says TEXT NOT NULL, 
	detail JSON NOT NULL, number INTEGER, previous TEXT, hash TEXT, 
	CONSTRAINT pk_events PRIMARY KEY (id)
);
INSERT INTO "events" VALUES(1,'clicks',17.0,'somebody','pushed','Objective 1 is in full use.','{"version": 1}',1,'0000000000000000000000000000000000000000000000000000000000000000','ea6f0ad84e992e7e42720e46573898b65b893acbfd485fb0d12689850a92bff4');
CREATE TABLE experiences (
	application TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	created DOUBLE NOT NULL, 
	slots INTEGER NOT NULL, 
	slot_s DOUBLE NOT NULL, 
	since DOUBLE, 
	document JSON NOT NULL, 
	why TEXT NOT NULL, 
	CONSTRAINT pk_experiences PRIMARY KEY (application, version)
);
INSERT INTO "experiences" VALUES('clicks',1,24.0,20160,60.0,1.5,'{"parse": {"format": 1, "slots": 20160}}','');
CREATE TABLE objectives (
	id INTEGER NOT NULL, 
	application TEXT NOT NULL, 
	version INTEGER NOT NULL, 
	performance DOUBLE NOT NULL, 
	reconfiguration DOUBLE NOT NULL, 
	resources DOUBLE NOT NULL, 
	bounds JSON NOT NULL, 
	state TEXT NOT NULL, 
	provenance TEXT NOT NULL, 
	trial_id INTEGER, 
	surrogate_id INTEGER, 
	evidence JSON NOT NULL, 
	created DOUBLE NOT NULL, 
	changed DOUBLE NOT NULL, 
	CONSTRAINT pk_objectives PRIMARY KEY (id), 
	CONSTRAINT fk_objectives_surrogate_id FOREIGN KEY(surrogate_id) REFERENCES surrogates (id), 
	CONSTRAINT fk_objectives_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id), 
	CONSTRAINT uq_objectives_application_version UNIQUE (application, version)
);
INSERT INTO "objectives" VALUES(1,'clicks',1,0.5,0.25,0.25,'{"parse": 0.01}','full','',1,NULL,'{}',8.0,9.0);
INSERT INTO "objectives" VALUES(2,'ads',1,0.5,0.25,0.25,'{}','proposed','trial 1 of run 1',3,NULL,'{}',33.0,33.0);
CREATE TABLE orders (
	application TEXT NOT NULL, 
	revision INTEGER NOT NULL, 
	issued DOUBLE NOT NULL, 
	document JSON NOT NULL, 
	CONSTRAINT pk_orders PRIMARY KEY (application)
);
INSERT INTO "orders" VALUES('clicks',1,13.0,'{"objective": {"version": 1}}');
CREATE TABLE quota_uses (
	manager TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	used DOUBLE NOT NULL, 
	told DOUBLE NOT NULL, 
	CONSTRAINT pk_quota_uses PRIMARY KEY (manager, kind, "key")
)
 WITHOUT ROWID

;
INSERT INTO "quota_uses" VALUES('manager 1','token','1',2000000.0,23.0);
CREATE TABLE samples (
	application TEXT NOT NULL, 
	operator TEXT NOT NULL, 
	start DOUBLE NOT NULL, 
	"end" DOUBLE NOT NULL, 
	node_type TEXT NOT NULL, 
	evidence TEXT NOT NULL, 
	arrived DOUBLE, 
	tuples_in DOUBLE, 
	tuples_out DOUBLE, 
	backlog DOUBLE, 
	service_n DOUBLE, 
	service_sum DOUBLE, 
	service_squares DOUBLE, 
	task_n DOUBLE, 
	task_records DOUBLE, 
	task_time DOUBLE, 
	task_inverse DOUBLE, 
	task_rates DOUBLE, 
	task_squares DOUBLE, 
	busy DOUBLE, 
	replicas DOUBLE, 
	batches DOUBLE, 
	batch_time DOUBLE, 
	batch_interval DOUBLE, 
	response_n DOUBLE, 
	response_sum DOUBLE, 
	completeness DOUBLE NOT NULL, state_rows DOUBLE, state_bytes DOUBLE, state_partitions DOUBLE, commit_time DOUBLE, store_loads DOUBLE, store_load_time DOUBLE, responses JSON, 
	CONSTRAINT pk_samples PRIMARY KEY (application, operator, start, "end", node_type)
)
 WITHOUT ROWID

;
INSERT INTO "samples" VALUES('clicks','count',0.0,60.0,'','progress',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1.0,2000000.0,300000000.0,16.0,0.5,4.0,2.5,NULL);
INSERT INTO "samples" VALUES('clicks','count',60.0,120.0,'','progress',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1.0,NULL,NULL,NULL,NULL,NULL,NULL,'{"-12": 3.0, "40": 97.5}');
INSERT INTO "samples" VALUES('clicks','parse',0.0,60.0,'','records',0.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "samples" VALUES('clicks','parse',0.0,60.0,'large','tasks',NULL,NULL,NULL,0.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "samples" VALUES('clicks','parse',60.0,120.0,'','records',1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "samples" VALUES('clicks','parse',120.0,180.0,'','records',2.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE scalers (
	application TEXT NOT NULL, 
	operator TEXT NOT NULL, 
	instance TEXT NOT NULL, 
	first_seen DOUBLE NOT NULL, 
	last_seen DOUBLE NOT NULL, 
	revision INTEGER, 
	acknowledged DOUBLE, 
	detail JSON NOT NULL, 
	CONSTRAINT pk_scalers PRIMARY KEY (application, operator, instance)
)
 WITHOUT ROWID

;
INSERT INTO "scalers" VALUES('clicks','parse','driver-1',14.0,15.0,1,15.0,'{}');
CREATE TABLE source_marks (
	application TEXT NOT NULL, 
	source TEXT NOT NULL, 
	position BIGINT NOT NULL, 
	read_at DOUBLE NOT NULL, 
	detail JSON NOT NULL, 
	CONSTRAINT pk_source_marks PRIMARY KEY (application, source)
);
INSERT INTO "source_marks" VALUES('clicks','/logs/a',1099511627776,3.0,'{"batch": 7}');
CREATE TABLE superseded_decisions (
	application TEXT NOT NULL, 
	operator TEXT NOT NULL, 
	time DOUBLE NOT NULL, 
	number INTEGER NOT NULL, 
	superseded DOUBLE NOT NULL, 
	who TEXT NOT NULL, 
	document JSON NOT NULL, 
	CONSTRAINT pk_superseded_decisions PRIMARY KEY (application, operator, time, number)
)
 WITHOUT ROWID

;
INSERT INTO "superseded_decisions" VALUES('clicks','parse',240.0,1,300.0,'one','{"kind": "HELD", "reason": "no metrics", "action": null, "objective_version": null, "rate": null, "response": null, "bound": null, "price": null, "seen": {}, "alternatives": {}, "shadow": null, "code": null, "proposed": null, "objections": null, "instance": "driver-1", "sequence": null}');
CREATE TABLE surrogates (
	id INTEGER NOT NULL, 
	application TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	document JSON NOT NULL, 
	start DOUBLE NOT NULL, 
	"end" DOUBLE NOT NULL, 
	windows INTEGER NOT NULL, 
	health TEXT NOT NULL, 
	error DOUBLE, 
	created DOUBLE NOT NULL, 
	CONSTRAINT pk_surrogates PRIMARY KEY (id), 
	CONSTRAINT uq_surrogates_application_number UNIQUE (application, number)
);
INSERT INTO "surrogates" VALUES(1,'clicks',1,'{"mean": {"parse": 0.002}}',0.0,180.0,3,'warn',0.125,4.0);
CREATE TABLE tokens (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	scopes TEXT NOT NULL, 
	made_by TEXT NOT NULL, 
	created DOUBLE NOT NULL, 
	expires DOUBLE, 
	revoked DOUBLE, 
	used DOUBLE, 
	parent_id INTEGER, applications JSON, 
	CONSTRAINT pk_tokens PRIMARY KEY (id), 
	CONSTRAINT fk_tokens_parent_id FOREIGN KEY(parent_id) REFERENCES tokens (id) ON DELETE CASCADE, 
	CONSTRAINT uq_tokens_name UNIQUE (name), 
	CONSTRAINT uq_tokens_digest UNIQUE (digest)
);
INSERT INTO "tokens" VALUES(1,'driver','0000000000000000000000000000000000000000000000000000000000000000','report','somebody',10.0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "tokens" VALUES(2,'page of driver','1111111111111111111111111111111111111111111111111111111111111111','read','driver',11.0,20.0,NULL,NULL,1,NULL);
INSERT INTO "tokens" VALUES(3,'one','2222222222222222222222222222222222222222222222222222222222222222','report','somebody',18.0,99.0,NULL,NULL,NULL,'["clicks"]');
CREATE TABLE trials (
	id INTEGER NOT NULL, 
	run_id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	parameters JSON NOT NULL, 
	state TEXT NOT NULL, 
	seed BIGINT NOT NULL, 
	started DOUBLE NOT NULL, 
	ended DOUBLE NOT NULL, 
	price DOUBLE, 
	violations DOUBLE, 
	reconfigurations DOUBLE, 
	price_error DOUBLE, 
	violations_error DOUBLE, 
	reconfigurations_error DOUBLE, 
	feasible BOOLEAN, 
	slack DOUBLE, 
	slots BIGINT, 
	seconds DOUBLE, 
	surrogate_id INTEGER, 
	trace TEXT, 
	failure TEXT, 
	detail JSON NOT NULL, application_id INTEGER, ordinal INTEGER, 
	CONSTRAINT pk_trials PRIMARY KEY (id), 
	CONSTRAINT fk_trials_run_id FOREIGN KEY(run_id) REFERENCES tuning_runs (id) ON DELETE CASCADE, 
	CONSTRAINT fk_trials_surrogate_id FOREIGN KEY(surrogate_id) REFERENCES surrogates (id), 
	CONSTRAINT uq_trials_run_id_number UNIQUE (run_id, number)
);
INSERT INTO "trials" VALUES(1,1,0,'{"x": [0.25]}','complete',7,5.0,6.0,0.5,NULL,NULL,NULL,NULL,NULL,1,NULL,NULL,NULL,1,NULL,NULL,'{}',1,1);
INSERT INTO "trials" VALUES(2,1,1,'{"x": [0.5]}','failed',7,6.0,7.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'no core left','{}',1,2);
INSERT INTO "trials" VALUES(3,2,0,'{}','complete',7,31.0,32.0,0.5,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'{}',2,1);
CREATE TABLE tuner_schema (
	version_num VARCHAR(32) NOT NULL, oldest TEXT, 
	CONSTRAINT tuner_schema_pkc PRIMARY KEY (version_num)
);
INSERT INTO "tuner_schema" VALUES('0012','0011');
CREATE TABLE tuning_runs (
	id INTEGER NOT NULL, 
	application_version_id INTEGER NOT NULL, 
	engine TEXT NOT NULL, 
	seed BIGINT NOT NULL, 
	budget INTEGER NOT NULL, 
	settings JSON NOT NULL, 
	state TEXT NOT NULL, 
	owner TEXT, 
	heartbeat DOUBLE, 
	lease_until DOUBLE, 
	fence INTEGER NOT NULL, 
	created DOUBLE NOT NULL, 
	ended DOUBLE, 
	failure TEXT, application_id INTEGER, ordinal INTEGER, 
	CONSTRAINT pk_tuning_runs PRIMARY KEY (id), 
	CONSTRAINT fk_tuning_runs_application_version_id FOREIGN KEY(application_version_id) REFERENCES application_versions (id)
);
INSERT INTO "tuning_runs" VALUES(1,2,'gp',7,60,'{"eta_v": 0.05}','running','somebody',7.0,67.0,1,5.0,NULL,NULL,1,1);
INSERT INTO "tuning_runs" VALUES(2,3,'gp',7,60,'{}','running','somebody',32.0,92.0,1,31.0,NULL,NULL,2,1);
CREATE TABLE watches (
	application TEXT NOT NULL, 
	settings JSON NOT NULL, 
	phase TEXT NOT NULL, 
	detail JSON NOT NULL, 
	due DOUBLE NOT NULL, 
	asked JSON NOT NULL, 
	owner TEXT, 
	heartbeat DOUBLE, 
	lease_until DOUBLE, 
	fence INTEGER NOT NULL, 
	CONSTRAINT pk_watches PRIMARY KEY (application)
);
INSERT INTO "watches" VALUES('clicks','{"period_s": 3600.0}','idle','{}',16.0,'{}',NULL,NULL,NULL,0);
CREATE TABLE write_checks (
	writer TEXT NOT NULL, 
	time DOUBLE NOT NULL, 
	CONSTRAINT pk_write_checks PRIMARY KEY (writer)
);
INSERT INTO "write_checks" VALUES('readiness',22.0);
CREATE INDEX ix_samples_end ON samples ("end");
CREATE INDEX ix_tuning_runs_application_version_id ON tuning_runs (application_version_id);
CREATE INDEX ix_trials_ended ON trials (ended);
CREATE INDEX ix_trials_surrogate_id ON trials (surrogate_id);
CREATE INDEX ix_objectives_surrogate_id ON objectives (surrogate_id);
CREATE INDEX ix_objectives_trial_id ON objectives (trial_id);
CREATE INDEX ix_decisions_application_time ON decisions (application, time);
CREATE INDEX ix_decisions_time ON decisions (time);
CREATE INDEX ix_tokens_parent_id ON tokens (parent_id);
CREATE INDEX ix_controls_application ON controls (application);
CREATE INDEX ix_events_application_time ON events (application, time);
CREATE INDEX ix_trials_run_id_price ON trials (run_id, price);
CREATE UNIQUE INDEX ix_events_number ON events (number);
CREATE INDEX ix_superseded_decisions_application_time ON superseded_decisions (application, time);
CREATE UNIQUE INDEX ix_tuning_runs_application_id_ordinal ON tuning_runs (application_id, ordinal);
CREATE UNIQUE INDEX ix_trials_application_id_ordinal ON trials (application_id, ordinal);
COMMIT;
